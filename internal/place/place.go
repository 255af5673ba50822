// Package place says where a clone is on disk, and what is where in it. It is a leaf: it makes nothing, and knows no
// contents.
//
//	clones/SUBJECT/HASH/    a clone; SUBJECT/HASH is its key
//	  store/NAME.git        a store
//	  lfs/                  the LFS objects of all trees: tree.LFSDir
//	  trees/ID              a tree
//	  refs/ID               a git layer
//	  warm/ID               a warm layer
//	  workspaces/ID         a workspace
package place

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

const clones = "clones"

// The directories in a clone's.
const (
	Stores     = "store"
	Trees      = "trees"
	GitLayers  = "refs"
	WarmLayers = "warm"
	Workspaces = "workspaces"
)

// Clones returns the directory of all clones in the data directory root.
func Clones(root string) string { return filepath.Join(root, clones) }

// Clone returns the directory of the clone of a key.
func Clone(root, key string) string { return filepath.Join(root, clones, key) }

// Workspace returns the directory of a workspace that stands on the clone of a key.
func Workspace(root, key, id string) string { return filepath.Join(root, clones, key, Workspaces, id) }

// Found is something in a clone's directory.
type Found struct {
	Key  string // of the clone
	Path string
}

// All lists what is there in the clones below root, whether they have a record or not. The pattern is as of path.Match,
// relative to a clone's directory, such as Workspaces+"/*"; "." is for the clones themselves. Directories that can't be
// read have nothing.
func All(root, pattern string) ([]Found, error) {
	names, err := fs.Glob(os.DirFS(Clones(root)), path.Join("*/*", pattern))
	list := make([]Found, len(names))
	for i, name := range names {
		list[i] = Found{Key: firstTwo(name), Path: filepath.Join(Clones(root), name)}
	}
	return list, err
}

// firstTwo returns the first two elements of a path that has them.
func firstTwo(name string) string {
	slashes := 0
	for i, c := range name {
		if c == '/' {
			if slashes++; slashes == 2 {
				return name[:i]
			}
		}
	}
	return name
}
