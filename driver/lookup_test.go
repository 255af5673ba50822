package driver

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestMountLookupFails checks that the leases stay if a Mount can't tell whether the workspace of its ID is mounted,
// because the container still runs. The engine sends an Unmount for the failed Mount, which releases one lease.
func TestMountLookupFails(t *testing.T) {
	for _, mode := range []string{"private", "shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			w.create("v", "mode", mode)
			dir := w.mountOK("v", "1")
			w.mountOK("v", "1") // docker cp
			uncover := cover(t, dir)
			_, err := w.Mount(t.Context(), "v", "1")
			uncover()
			wantErr(t, "a mount point that can't be opened", err, "not a directory")
			if got := w.core.Leases("v"); !slices.Equal(got, []string{"1", "1#2"}) {
				t.Errorf("leases %q", got)
			}
			w.unmountOK("v", "1")
			if got := w.mountOK("v", "1"); got != dir {
				t.Errorf("the next docker cp got %s, want %s", got, dir)
			}
			w.unmountOK("v", "1")
			w.unmountOK("v", "1")
			w.removeOK("v")
		})
	}
}

// cover mounts a directory over the mount points until uncover is called. In that directory, the mount point dir is a
// file.
func cover(t *testing.T, dir string) (uncover func()) {
	t.Helper()
	over := testdir.New(t, "over")
	write(t, over, filepath.Base(dir), "")
	points := filepath.Dir(dir)
	if err := unix.Mount(over, points, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Unmount(points, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}

// TestLeasesWithoutDatabase checks that a Mount or Unmount that can't be recorded changes no lease, also after a restart.
func TestLeasesWithoutDatabase(t *testing.T) {
	for _, mode := range []string{"private", "shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			for _, name := range []string{"v", "fresh"} {
				w.create(name, "mode", mode)
			}
			dir := w.mountOK("v", "1")
			w.mountOK("v", "1")
			if err := w.core.DB.Close(); err != nil {
				t.Fatal(err)
			}
			for _, m := range []mountID{{"v", "1"}, {"v", "2"}, {"fresh", "1"}} {
				if path, err := w.Mount(t.Context(), m.Volume, m.ID); err == nil {
					t.Errorf("Mount of %+v succeeded, at %s", m, path)
				}
			}
			if err := w.Unmount(t.Context(), "v", "1"); err == nil {
				t.Error("Unmount without a database succeeded")
			}
			for _, restarted := range []bool{false, true} {
				if restarted {
					root := w.core.Root
					w.core.Work.Close()
					w.start(root)
				}
				if got := w.core.Leases("v"); !slices.Equal(got, []string{"1", "1#2"}) {
					t.Errorf("restarted %v: leases %q", restarted, got)
				}
				if got := w.core.Leases("fresh"); len(got) > 0 {
					t.Errorf("restarted %v: leases %q, want none because the Mount failed", restarted, got)
				}
			}
			if got := w.mountOK("v", "1"); got != dir {
				t.Errorf("docker cp got %s, want %s", got, dir)
			}
			for range 3 {
				w.unmountOK("v", "1")
			}
			w.removeOK("v")
			w.mountOK("fresh", "1")
			w.unmountOK("fresh", "1")
			w.removeOK("fresh")
		})
	}
}
