// Package testdisk makes small filesystems for tests, which can be filled to the last block. It
// needs root and loop devices, and xfsprogs for XFS.
package testdisk
