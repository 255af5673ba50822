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

	"github.com/helmdeck/repos/internal/handout"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
)

// HasCache reports whether the volume of a workspace asks for the cache.
func HasCache(rec meta.Workspace) bool { return rec.Options["cache"] != string(volume.CacheOff) }

// Make makes the upper of a new workspace at dir, with the workspace's own files. No
// container has seen it yet, so paths in it are safe to use. gitLayer is the directory of the
// workspace's git layer. tracksCache says that the repository has a file in the place of the link
// to the cache.
func Make(dir string, rec meta.Workspace, gitLayer string, tracksCache bool) error {
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
	files := make(map[string][]byte)
	var err error
	if files[aboutName], err = aboutText(rec, rec.MountedAt); err != nil {
		return err
	}
	if handout.Wanted(rec.Options) {
		at := filepath.Join(dir, handout.Mount)
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		made = append(made, at)
		if files["config"], err = configText(gitLayer, rec); err != nil {
			return err
		}
	}
	for name, text := range files {
		file := filepath.Join(dir, ".git", name)
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
		made = append(made, file)
	}
	for _, path := range made {
		if err := os.Lchown(path, int(rec.UID), int(rec.GID)); err != nil {
			return err
		}
	}
	return nil
}

// configText returns the .git/config of a workspace whose volume hands out its credential: that of
// its git layer, which it shares with others, and the section that makes git ask.
func configText(gitLayer string, rec meta.Workspace) ([]byte, error) {
	shared, err := os.ReadFile(filepath.Join(gitLayer, ".git/config"))
	return append(shared, handout.Section(rec.Options["repo"])...), err
}
