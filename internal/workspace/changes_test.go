package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestHasChanges: only some changes leave a checkpoint.
func TestHasChanges(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	path := func(names ...string) func(dir string) string {
		return func(dir string) string { return filepath.Join(append([]string{dir}, names...)...) }
	}
	writes := func(names ...string) func(string) error {
		return func(dir string) error { return os.WriteFile(path(names...)(dir), []byte("x"), 0o644) }
	}
	for _, tt := range []struct {
		name    string
		do      func(dir string) error
		want    bool
		changed int64
	}{
		{"nothing", func(string) error { return nil }, false, 0},
		{"git status", func(dir string) error {
			now := time.Now() // so that the index is written again
			err := os.Chtimes(filepath.Join(dir, "README.md"), now, now)
			testgit.GitAny(t, dir, "status")
			return errors.Join(err, os.Chtimes(filepath.Join(dir, ".git/index"), now, now))
		}, true, 1}, // the times of a file are the container's
		{"an index alone", writes(".git/index"), false, 0},
		{"the cache", writes(".git/hdcache/go-mod/x"), false, 0},
		{"helmdeck.json", writes(".git/helmdeck.json"), false, 0},
		{"an empty directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "new"), 0o755) }, false, 0},
		{"the times of a pack", func(dir string) error {
			packs, err := filepath.Glob(filepath.Join(dir, ".git/objects/pack/*.pack"))
			if err != nil || len(packs) == 0 {
				return errors.Join(err, errors.New("no pack"))
			}
			return os.Chtimes(packs[0], time.Now(), time.Now())
		}, false, 0},
		{"a new file", writes("mine"), true, 1},
		{"two files", func(dir string) error {
			return errors.Join(writes("a")(dir), writes("src/b")(dir), os.Symlink("a", filepath.Join(dir, "c")))
		}, true, 3},
		{"a changed file", writes("README.md"), true, 1},
		{"a removed file", func(dir string) error { return os.Remove(filepath.Join(dir, "README.md")) }, true, 1},
		{"a changed mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "README.md"), 0o600) }, true, 1},
		{"a directory in its own place", func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "src")), os.Mkdir(filepath.Join(dir, "src"), 0o755))
		}, true, 0},
		{"a branch", writes(".git/refs/heads/mine"), true, 0},
		{"a configuration", writes(".git/config"), true, 0},
		{".git is gone", func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, ".git"))
		}, true, 0},
		{"a .hdcache", writes(".hdcache"), true, 1},
		{"without the cache", func(dir string) error { return os.RemoveAll(filepath.Join(dir, ".git/hdcache")) }, false, 0},
		{"what can't be opened", func(dir string) error {
			return errors.Join(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Mkdir(filepath.Join(dir, "closed"), 0))
		}, true, 1},
	} {
		rec, dir := w.open("v", tt.name)
		if err := tt.do(dir); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		w.release("v", tt.name)
		reaped(t, w)
		_, err := w.m.Checkpoint(rec.ID, volume.DefaultSubject)
		if got := err == nil; got != tt.want {
			t.Errorf("%s: leaves a checkpoint: %v, want %v", tt.name, got, tt.want)
		}
		if err == nil && tt.want {
			if d := w.checkpointOf(rec.ID); *d.Changed != tt.changed {
				t.Errorf("%s: %d changed, want %d", tt.name, *d.Changed, tt.changed)
			}
		}
	}
}
