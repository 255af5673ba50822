package driver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// TestMountReachesNoContainer checks that a Mount that would reach no container returns an error and
// leaves nothing behind. If the lease already has its workspace, Mount returns a path that can't exist
// instead, because the engine takes an error for the end of the container.
func TestMountReachesNoContainer(t *testing.T) {
	t.Parallel()
	lost := errors.New("the mounts are lost")
	for _, mode := range []string{"private", "shared", "keep"} {
		w := newWorld(t)
		w.create("v", "mode", mode)
		w.core.Reached = func() error { return lost }
		if dir, err := w.Mount(t.Context(), "v", "1"); !errors.Is(err, lost) {
			t.Errorf("%s: Mount: %q, %v", mode, dir, err)
		}
		if got := w.core.Workspaces.Leases("v"); len(got) > 0 {
			t.Errorf("%s: leases %+v, want none", mode, got)
		}
		if rec, ok := w.core.Workspaces.Kept("v"); ok {
			t.Errorf("%s: the volume keeps %+v, want nothing", mode, rec)
		}
		wait.For(t, "the workspace to go", func() error { return wait.Equal(len(w.core.Workspaces.Workspaces()), 0) })
		if points, err := testdir.Mounts(w.core.Root); err != nil || len(points) > 0 {
			t.Errorf("%s: mounted: %v, %v; want nothing", mode, points, err)
		}

		w.core.Reached = nil
		dir := w.mountOK("v", "1")
		if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		w.core.Reached = func() error { return lost }
		wantNoPath(t, w.mountOK("v", "1"), lost.Error())
		if mode != "private" {
			if dir, err := w.Mount(t.Context(), "v", "2"); !errors.Is(err, lost) {
				t.Errorf("%s: a Mount with another ID: %q, %v", mode, dir, err)
			}
		}
		leases := w.core.Workspaces.Leases("v")
		if len(leases) != 1 || !slices.Equal(leases[0].Leases, meta.Leases{"1", "1#2"}) {
			t.Errorf("%s: leases %+v", mode, leases)
		}
		if _, err := os.Lstat(filepath.Join(dir, "mine")); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// wantNoPath checks that a path can't exist and contains words.
func wantNoPath(t *testing.T, path, words string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, unix.ENOTDIR) || !strings.Contains(path, words) {
		t.Errorf("Mount returned %q: %v, want a path that can't exist with %q", path, err, words)
	}
}

// TestMountOutOfReach checks Mounts while a container has a private workspace that is out of reach:
// with its ID, they return a path that can't exist and says why; with other IDs, they get a workspace.
func TestMountOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.core.HeldWait = 1
	w.restart()
	w.create("v")
	f, err := os.Open(w.mountOK("v", "1")) // as a container holds it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	testdir.Unmount(t, w.core.Root)
	for range 2 {
		path := w.mountOK("v", "1")
		wantNoPath(t, path, `a container that outlived a disabled plugin or a killed engine still uses the workspace of volume "v"`)
		if err := w.Unmount(t.Context(), "v", "1"); err != nil {
			t.Error(err)
		}
		if got := w.core.Workspaces.Leases("v"); len(got) > 0 {
			t.Errorf("leases %+v", got)
		}
	}
	v, err := w.Get("v")
	if err != nil || !strings.Contains(v.Status["last_error"].(string), "end it (docker ps") {
		t.Errorf("%+v, %v", v, err)
	}
	w.mountOK("v", "2")
	f.Close()
	wait.For(t, "the old workspace to be free", func() error {
		_, err := os.Lstat(filepath.Join(w.mountOK("v", "1"), ".git/helmdeck.json"))
		return err
	})
}
