// Package checkout writes the files of a commit and their index into a directory, and
// turns the checkout of one commit into that of another.
//
// A separate process of this program, confined and limited like git, reads the repository's data. If it exceeds a
// limit or crashes, the caller gets an error; its answer is checked like git's output. Work tree and index are
// identical to what git alone would write, except for the times and inodes of files. No file of the tree has a
// modification time in the current second.
//
// # A whole checkout
//
// git makes an index without files (read-tree). Then several processes write the files, each a part of them
// (checkout-index), those named .gitattributes before all others. git's own parallel checkout makes its workers report
// each file to one parent, so with two processors it is no faster than one process (100,000 files: 3.2 s to 3.8 s
// against 3.4 s; three writers: 2.1 s).
//
// # A move
//
// A move to another commit takes three commands: git lists the differences and names the commit's tree (diff-tree),
// makes an index of the new and changed files alone, which applies git's rules to each name, and writes those files.
// This package puts their entries into the index. read-tree -m -u would read all trees, and the index twice. The old
// index is mapped into memory. With 100,000 files it has 10 MB: to write it takes 2 ms if the kernel has free memory
// at hand, and 25 ms in a virtual machine whose host provides it only then. So it is written while git writes the
// files, and once more, into the same pages, when the stat data of the files is known.
//
// A move writes a layer and mounts nothing: a file that is gone becomes a whiteout, which any user may make (a
// character device 0/0, Linux 5.8). Each layer has the whole index. TestMovesStack compares overlays of such layers
// with what git checks out. For 100 of 100,000 changed files (medians of seven; the last three on a slower machine,
// where the move on an overlay took 105 ms):
//
//	the move, all included                              50 ms
//	the same on a mounted overlay                       81 ms
//	read-tree -m -u                                    199 ms
//	the same, and add --refresh for the set times      405 ms
//	checkout --detach                                  651 ms
//
// The result is checked against the hashes of the trees that have changed. If they do not match, the commit is checked
// out whole, so that git says what is wrong. The index is git's own to the last byte, except for times and inodes
// (TestMovesMatchGit). One difference is known: git, like a move, applies the .gitattributes of the index, and a whole
// checkout those that were written to disk, which matters where their own encoding or line ends change what they say.
//
// # Times
//
// Modification times decide what git, make and cargo do again.
//
// No file of a tree has a time in the current second, because git compares whole seconds: git status would miss a
// same-size edit in the second of the checkout, and an index as old as its files makes every container read all of
// them. So the times are set back two seconds. The plugin writes them into the index itself: to refresh it, git would
// read every file again.
//
// All files that a checkout writes have one time, and those that a move writes a later one. Equal is not older for make,
// ninja, Cargo and Python, so a generated file that is committed with its source is never older than that, although
// several processes write the files. git clone writes them in the order of their names, which helps only those that sort
// after their source.
//
// A file keeps its time until its bytes change, also in a tree that is built whole (Reference, copyTimes); otherwise
// make and cargo would build everything again in a warm directory. Directories always have new times. A time to come is
// not kept: the clock was ahead.
//
// # The process
//
// All that is read in bulk is read by a process of its own (ServeJob): the index, its cache of trees, comparisons,
// attributes, LFS pointers, .gitmodules. A crash of it is an error that names the commit and says nothing about the
// store.
//
//   - It is this program with an argument that no user gives, confined, limited and ended like git, as the tree's uid.
//     git, which it starts itself, inherits all of that. Starting it takes some 10 ms.
//   - Its answer is decoded strictly: at most 32 MiB, 100,000 pointers and 10,000 submodules, times the
//     SizeFactor, each with a path that stays in the tree. A million names cost the plugin less than 8 MiB of garbage (TestManyNames).
//   - On a smaller index it collects no garbage until it has 192 MiB, because that took longer than all else with
//     100,000 entries.
//   - An index of more than 32 MiB, some 300,000 files, is a large job: git makes the index, the process ends, and a
//     second one waits for its turn to read it. It takes at most three times the index's size (72 MB: 217 MB), and
//     does not begin if the memory limit is less. An index of more than 256 MiB, times the SizeFactor, is refused, because a repository of a
//     few kilobytes can have one of any size.
//   - Indexes of more than 16 MiB are written to the disk while they are made, 4 MiB at a time, at half of the disk's
//     speed. Otherwise their dirty pages wait for the next sync, and the commits of all subjects behind it: six
//     indexes of 250 MB made another subject's longest mount take 0.9 to 1.4 s, and 0.1 s so.
//
// # Encodings
//
// Those of working-tree-encoding are glibc's, and the root filesystem has the converters that rootfs/build lists. If
// git says that it could not encode a file, and still succeeds, it is asked to convert from UTF-16: if that fails, the
// converters are missing, and the checkout is an error.
package checkout
