// Package upper makes the writable directories of workspaces, and says whether a container
// changed anything in them.
//
// An upper begins with .git/helmdeck.json, which describes the workspace to programs in the
// container, and with the place of the cache. These files are no changes, nor is what git
// writes when it only reads.
//
// Containers write to an upper while it is mounted. Afterwards it is walked by descriptor, no
// symlink in it is followed, and nothing in it is executed.
package upper

import (
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
)

// HasCache reports whether the volume of a workspace asks for the cache.
func HasCache(rec meta.Workspace) bool { return rec.Options["cache"] != string(volume.CacheOff) }

// Make makes the upper of a new workspace at dir, with the workspace's own files. No
// container has seen it yet, so paths in it are safe to use. tracksCache says that the
// repository has a file in the place of the link to the cache.
func Make(dir string, rec meta.Workspace, tracksCache bool) error {
	made := []string{dir, filepath.Join(dir, ".git")}
	if HasCache(rec) {
		made = append(made, filepath.Join(dir, tree.CacheMount))
	}
	for _, path := range made {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	// If the repository tracks a .hdcache, the link is not made.
	if HasCache(rec) && !tracksCache {
		link := filepath.Join(dir, tree.CacheLink)
		if err := os.Symlink(tree.CacheMount, link); err != nil {
			return err
		}
		made = append(made, link)
	}
	text, err := aboutText(rec, rec.MountedAt)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, ".git", aboutName)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	for _, path := range append(made, file) {
		if err := os.Lchown(path, int(rec.UID), int(rec.GID)); err != nil {
			return err
		}
	}
	return nil
}
