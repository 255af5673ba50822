// Package checkout writes the files of a commit into a directory, with their index, and
// turns the checkout of one commit into that of another.
//
// A caller may rely on this: a process of its own, of this program, reads in bulk what a
// repository says, confined and limited like git. If it takes too much or crashes, the
// caller gets an error, and its answer is judged as git's output is. The work tree and the index are what git alone would make of the commit, to
// the last byte, but for the times and places of files; no file of the tree carries the
// current second.
package checkout
