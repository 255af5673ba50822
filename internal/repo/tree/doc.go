// Package tree builds the layers that a workspace stands on, below the directory of a
// Remote:
//
//	trees/<id>/  a tree: the files of a commit, .git/index and, if only some files are
//	             checked out, .git/info/sparse-checkout
//	refs/<id>/   a git layer: .git without objects of its own, but with hard links to
//	             the store's packs
//	lfs/         LFS objects, named by their hash, for all trees
//
// A tree is built whole, or on top of the newest tree of the same shape. If its chain of
// layers becomes long or heavy, it is built again, whole, in the background. Concurrent
// callers share a build, which continues after the end of their contexts.
//
// Callers may rely on this: a returned layer never changes, and a held layer stays. A
// layer that nobody holds, and whose commit is at no ref that a volume has named, is garbage
// and is removed in the background.
package tree
