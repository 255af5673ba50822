// Package tree builds what is checked out of a repository, as layers below the directory
// of its Remote:
//
//	trees/<id>/  one layer: the files of a commit, .git/index and, of a sparse one,
//	             .git/info/sparse-checkout
//	refs/<id>/   one git layer: .git without objects of its own, but hard links to the
//	             store's packs
//	lfs/         LFS objects by their hash, for all trees
//
// A tree is built whole, or on top of the one that is nearest to it; what has become too
// deep is built again, whole, in the background. Builds are shared by those who want the
// same, and go on when the caller's context ends.
//
// A caller may rely on this: a layer never changes once it was returned, and what is held
// stays. What nothing holds, and no ref that a volume names is at, goes in the background.
package tree
