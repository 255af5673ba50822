// Package disk measures what files take and what a filesystem has left.
//
// Sizes are allocated blocks, as du counts them, each inode once. Directories may be
// hostile: they are read by descriptor, without following symbolic links, entering
// mounts, or opening anything but directories.
package disk
