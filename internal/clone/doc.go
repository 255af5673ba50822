// Package clone keeps what the workspaces of one (subject, repository) share: the stores,
// the trees and the git layers.
//
//	clones/<subject>/<repo hash>/
//	  manifest.json       names the clone, so that meta.db can be rebuilt
//	  store/<history>.git/ a bare repository (package remote)
//	  trees/<id>/         one layer: the files of a commit, .git/index and, of a
//	                      sparse one, .git/info/sparse-checkout
//	  refs/<id>/          one git layer: .git without objects of its own, but
//	                      hard links to the store's packs
//	  lfs/<ab>/<id>       LFS objects by their hash, for all trees
//	  workspaces/<id>/    (package workspace)
//
// Guarantees: a layer never changes after Prepare has returned it, and is not deleted
// before the Checkout is released. A clone in use (Use), or whose layers are held, is not
// evicted. Fetches and builds continue in the background when the caller's context ends,
// so that the next Prepare finds them done. Concurrent callers share them. Status uses
// memory only: its locks are never held during I/O or a command.
package clone
