// Package testdisk makes small filesystems of their own for tests, which can be filled to the last block. It needs root and
// loop devices, and xfsprogs for one of them.
package testdisk
