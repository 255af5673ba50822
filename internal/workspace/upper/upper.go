package upper

import (
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// hasCache reports whether the volume of a workspace asks for the cache.
func hasCache(rec meta.Workspace) bool { return rec.Options["cache"] != string(volume.CacheOff) }

// Make makes the empty directory dir the upper of a new workspace, with the workspace's own files. No
// container has seen it yet, so paths in it are safe to use. gitLayer is the directory of the
// workspace's git layer. tracksCache says that the repository has a file in the place of the link
// to the cache.
func Make(dir string, rec meta.Workspace, gitLayer string, tracksCache bool) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		return err
	}
	made := []string{dir, filepath.Join(dir, ".git")}
	if err := overlay.Mark(dir); err != nil {
		return err
	}
	if volume.HasCacheLink(rec.Options) && !tracksCache {
		link := filepath.Join(dir, cache.Link)
		if err := os.Symlink(cache.Mount, link); err != nil {
			return err
		}
		made = append(made, link)
	}
	files := make(map[string][]byte)
	var err error
	if files[aboutName], err = aboutText(rec, rec.MountedAt, nil); err != nil {
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
