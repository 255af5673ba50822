// Package checkout writes the files of a commit and their index into a directory, and
// turns the checkout of one commit into that of another.
//
// A separate process of this program, confined and limited like git, reads the repository's data. If it exceeds a
// limit or crashes, the caller gets an error; its answer is checked like git's output. Work tree and index are
// identical to what git alone would write, except for the times and inodes of files. No file of the tree has a
// modification time in the current second.
package checkout
