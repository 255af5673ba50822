// Package clone keeps what is shared between the workspaces of one (subject,
// repository): the stores, the trees and the git layers.
//
//	clones/<subject>/<repo hash>/
//	  manifest.json       what this directory is; meta.db can be rebuilt from it
//	  store/<history>.git/ a bare repository (package remote)
//	  trees/<id>/         one layer: the files of a commit, .git/index and, of a
//	                      sparse one, .git/info/sparse-checkout
//	  refs/<id>/          one git layer: .git without objects of its own, but
//	                      hard links to the store's packs
//	  lfs/<ab>/<id>       LFS objects by their hash, for all trees
//	  cache/<uid>/        what .hdcache shows (package workspace)
//	  workspaces/<id>/    (package workspace)
//
// A caller may rely on this: a layer never changes once Prepare has returned
// it, and is not deleted before the Checkout is released; a clone that somebody
// uses (Use), or whose layers somebody holds, is not evicted. Fetches and builds go
// on in the background when the caller's context ends, so that the next Prepare
// finds them done; concurrent callers share them. The state that Status shows
// is in memory and is never held while something is read, run or written.
package clone
