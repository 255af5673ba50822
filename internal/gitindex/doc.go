// Package gitindex reads, changes and writes git's index in memory (gitformat-index,
// versions 2 and 3): its entries, its cache of trees, and which of its files a cone
// leaves out of the work tree.
//
// It opens no file and starts no process. Its input may be anything: Parse returns an
// error then, and takes memory in proportion to the input. Encode writes the bytes that
// git would write.
package gitindex
