// Package gitindex reads, changes and writes git's index in memory (gitformat-index,
// versions 2 and 3): its entries, its cache of trees, and which files a cone excludes
// from the work tree.
//
// It opens no file and starts no process. Its input may be anything: Parse returns an
// error, and its memory is proportional to the input. Encode writes the same bytes as
// git.
package gitindex
