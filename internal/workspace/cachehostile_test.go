package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
)

// TestHostileCache: what a container puts in the place of its cache, or above it, is not followed, and nothing of what is there is
// published: neither while it runs nor at its end.
func TestHostileCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, dir := w.open("good", "1")
	put(t, dir, stored("good"), "good")
	w.end("good", "1")
	outside := t.TempDir()
	put(t, outside, "npm/_cacache/content-v2/evil", "evil")
	put(t, outside, stored("evil"), "evil")
	for what, do := range map[string]func(dir string) error{
		"a link to outside": func(dir string) error { return os.Symlink(outside, filepath.Join(dir, ".git/hdcache")) },
		"a link to a sibling": func(dir string) error {
			put(t, dir, "x/npm/_cacache/content-v2/evil", "evil")
			return os.Symlink("../x", filepath.Join(dir, ".git/hdcache"))
		},
		"a file":   func(dir string) error { put(t, dir, ".git/hdcache", "evil"); return nil },
		"a FIFO":   func(dir string) error { return unix.Mkfifo(filepath.Join(dir, ".git/hdcache"), 0o666) },
		"a socket": func(dir string) error { return unix.Mknod(filepath.Join(dir, ".git/hdcache"), unix.S_IFSOCK|0o666, 0) },
		"a device": func(dir string) error {
			return unix.Mknod(filepath.Join(dir, ".git/hdcache"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
		},
		"a directory that was renamed": func(dir string) error { // it is of the layers below
			return os.Rename(filepath.Join(dir, ".git/info"), filepath.Join(dir, ".git/hdcache"))
		},
		".git is a link to outside": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, ".git")), os.Symlink(filepath.Join(outside, ".git"), filepath.Join(dir, ".git")))
		},
		".git is a file": func(dir string) error {
			put(t, dir, "other/hdcache/npm/_cacache/content-v2/evil", "evil")
			return errors.Join(os.RemoveAll(filepath.Join(dir, ".git")), os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: other\n"), 0o644))
		},
		"a tool's directory is a link": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, ".git/hdcache"), 0o755), os.Symlink(filepath.Join(outside, "npm"), filepath.Join(dir, ".git/hdcache/npm")))
		},
	} {
		var rec meta.Workspace
		rec, dir = w.open(what, "1", "mode", "shared")
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, ".git/hdcache")), do(dir)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if r, err := w.m.PublishCache(t.Context(), rec.ID); err != nil || r.Files != 0 {
			t.Errorf("%s: published %+v, %v", what, r, err)
		}
		w.end(what, "1")
		_, dir = w.open("next", "1")
		wantFile(t, dir, stored("good"), "good")
		wantFile(t, dir, stored("evil"), "")
		w.end("next", "1")
		if got := entries(t, filepath.Join(outside, "npm/_cacache/content-v2")); len(got) != 1 {
			t.Errorf("%s: outside has %q", what, got)
		}
		if n := len(w.m.config.Warm.CacheLayers(rec.Clone)); n != 1 {
			t.Errorf("%s: %d layers", what, n)
		}
	}
}
