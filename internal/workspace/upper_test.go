package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestHasChanges: only some changes leave a discard.
func TestHasChanges(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
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
		{"the cache", writes(".hdcache/go-mod/x"), false, 0},
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
			return errors.Join(unix.Unmount(filepath.Join(dir, ".git/hdcache"), unix.MNT_DETACH), os.RemoveAll(filepath.Join(dir, ".git")))
		}, true, 0},
		{"another .hdcache", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, ".hdcache")), writes(".hdcache")(dir))
		}, true, 0},
		{"without the cache's mount", func(dir string) error {
			return errors.Join(unix.Unmount(filepath.Join(dir, ".git/hdcache"), unix.MNT_DETACH), writes(".git/hdcache/x")(dir))
		}, false, 0},
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
		_, err := w.m.Discarded(rec.ID)
		if got := err == nil; got != tt.want {
			t.Errorf("%s: leaves a discard: %v, want %v", tt.name, got, tt.want)
		}
		if err == nil && tt.want {
			if d := w.discardOf(rec.ID); *d.Changed != tt.changed {
				t.Errorf("%s: %d changed, want %d", tt.name, *d.Changed, tt.changed)
			}
		}
	}
}

// TestHasChangesDeep: a deep upper costs little garbage and no memory for each level. Not
// parallel: it counts the allocations of the process.
func TestHasChangesDeep(t *testing.T) {
	const levels = 4000
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	v := &changeFinder{found: func() {}}
	name := strings.Repeat("d", 255)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range levels {
		if !v.Visit(disk.Entry{Dir: int(dir.Fd()), Name: name, Type: unix.DT_DIR, Depth: i + 1}) {
			t.Fatalf("stops at level %d", i+1)
		}
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(levels*16<<10); got > most {
		t.Errorf("%d bytes for %d levels, want at most %d", got, levels, most)
	}
	if len(v.names) > maxKnown {
		t.Errorf("%d names are kept", len(v.names))
	}
}

// TestHasChangesOpaque: an opaque directory is a change if it hides an entry of a layer, or
// if finding out would cost too much.
func TestHasChangesOpaque(t *testing.T) {
	t.Parallel()
	lower, upper := scratch(t), scratch(t)
	deep := strings.Repeat("d/", maxKnown)
	for _, dir := range []string{"old", "new", deep + "e"} {
		if err := os.MkdirAll(filepath.Join(upper, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(lower, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		opaque string
		looks  int
		want   bool
	}{
		{"new", 0, false},
		{"old", 0, true},
		{deep, 0, false},
		{deep + "e", 0, true},
		{"new", maxLooks, true},
	} {
		path := filepath.Join(upper, tt.opaque)
		if err := unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
		v := &changeFinder{found: func() {}, lower: []string{lower}, looks: tt.looks}
		if err := disk.Walk(t.Context(), upper, v, nil); err != nil || v.changed != tt.want {
			t.Errorf("%s after %d looks: changed is %v, want %v; %v", tt.opaque, tt.looks, v.changed, tt.want, err)
		}
		if err := unix.Removexattr(path, "trusted.overlay.opaque"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hasChanges(ctx, upper, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
