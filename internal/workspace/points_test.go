package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
)

// A process on the host of an earlier version has left workspaces mounted in their own
// directories. Their containers and leases, and kept workspaces, survive.
func TestMountsOfEarlierVersion(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		w := newWorld(t)
		made, dir := w.open("v", "1", "mode", mode)
		write(t, filepath.Join(dir, "mine"), "x")
		w.close()
		old := filepath.Join(w.m.mounter.Dir(made), "tree")
		if err := os.Mkdir(old, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := overlay.Move(dir, old); err != nil {
			t.Fatal(err)
		}
		testdir.Unmount(t, overlay.PointsDir(w.root))
		w.restart()
		rec, ok := w.lookup("1")
		if !ok || rec.ID != made.ID {
			t.Fatalf("%s: %+v, %v", mode, rec, ok)
		}
		w.wantMounted(rec, "x")
		write(t, filepath.Join(dir, ".git/hdcache/x"), "cached")
		if points, err := testdir.Mounts(w.root); err != nil || len(points) != 2 {
			t.Errorf("%s: mounts %v, %v", mode, points, err)
		}
		if _, err := os.Lstat(old); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the old mount point: %v", mode, err)
		}
		w.release("v", "1")
		w.wantLeases(mode)
	}
}

// A start removes the mount points that a process that died has left.
func TestTidyPoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1")
	if err := overlay.MakePoint(overlay.PointsDir(w.root), "left"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := entries(t, overlay.PointsDir(w.root)); !slices.Equal(got, []string{rec.ID}) {
		t.Errorf("mount points %q, want that of the workspace", got)
	}
	w.release("v", "1")
	if got := entries(t, overlay.PointsDir(w.root)); len(got) > 0 {
		t.Errorf("mount points %q, want none", got)
	}
}
