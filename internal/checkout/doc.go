// Package checkout writes the files of a commit into a directory, with their index, and
// turns the checkout of one commit into that of another.
//
// A caller may rely on this: all that is read in bulk of what a repository says is read
// by a process of its own, of this program, confined and limited like git: whatever it
// takes and however it ends, the caller gets an error. Its answer is judged as git's
// output is. The work tree and the index are what git alone would make of the commit, to
// the last byte, but for the times and places of files; no file of the tree carries the
// current second.
package checkout
