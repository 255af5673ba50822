// Package gitindex reads, changes and writes git's index in memory (gitformat-index,
// versions 2 and 3): its entries, its cache of trees, and which files a cone excludes
// from the work tree.
//
// It opens no file and starts no process. Its input may be anything: Parse returns an
// error, and its memory is proportional to the input. Encode writes the same bytes as
// git.
//
// FuzzParse gives Parse any input. If git writes a format that this package does not know, package checkout makes git
// list its index; such a tree has an index without a cache of trees, so the next one is built whole too.
package gitindex
