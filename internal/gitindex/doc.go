// Package gitindex reads, changes and writes git's index in memory (gitformat-index,
// versions 2 and 3): its entries, its cache of trees, and which of its files a cone
// leaves out of the work tree.
//
// It opens no file and starts no process. What it reads may be anything: a parser
// returns an error, and takes memory in proportion to its input. What Encode writes is
// what git would write, to the last byte.
package gitindex
