// Package disk says what files take on a disk and what a filesystem has left.
//
// A caller may rely on this: sizes are allocated blocks, as du counts them, each
// inode once; a directory that a hostile program wrote is read by descriptor:
// no symbolic link is followed, no mount entered, nothing but directories opened.
package disk
