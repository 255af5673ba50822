// Package disk measures what files take and what a filesystem has left.
//
// Sizes are allocated blocks, as du counts them, each inode once. Directories may be
// hostile: they are read by descriptor, without following symbolic links, entering
// mounts, or opening anything but directories.
//
// Walk goes down with openat2 and up with "..", and compares the inode: a program that moves directories under it can
// hide something until the next time, but not lead it elsewhere. It needs five descriptors, and 32 bytes for each
// level of depth. Hard links make names that cost nothing, so a caller that measures ends a walk after a minute, and
// takes what it has found until then for the size.
package disk
