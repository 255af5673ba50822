package workspace

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
)

var modes = []string{"private", "shared", "keep"}

// breakDB has every commit fail, as on a disk with errors, until mend is called.
func (w *world) breakDB() (mend func()) {
	w.t.Helper()
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		db, _, err := meta.Open(filepath.Join(w.root, "meta.db"))
		if err != nil {
			w.t.Fatal(err)
		}
		w.m.DB, w.close = db, sync.OnceFunc(func() {
			w.clones.Close()
			db.Close()
		})
		w.t.Cleanup(w.close)
	}
}

// wantMounted checks that rec is the workspace that has text in the file "mine",
// and is mounted where it says.
func (w *world) wantMounted(rec meta.Workspace, text string) {
	w.t.Helper()
	dir := w.m.Mountpoint(rec)
	mounted, err := overlay.Mounted(dir)
	if err != nil || !mounted {
		w.t.Errorf("the answer %q is not mounted: %v", dir, err)
		return
	}
	if got := content(w.t, filepath.Join(dir, "mine")); got != text {
		w.t.Errorf("%q has %q, want %q", dir, got, text)
	}
}

// An Unmount whose commit fails leaves everything as it was: no Mount is answered
// with a directory that is not the workspace.
func TestFailedRelease(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			made, dir := w.open("v", "1", "mode", mode)
			write(t, filepath.Join(dir, "mine"), "x")
			mend := w.breakDB()
			if err := w.m.Release("v", "1"); err == nil {
				t.Fatal("Release succeeded without a database")
			}
			if mode == "keep" {
				if err := w.m.End(t.Context(), "v", func(*meta.Tx) error { return nil }); err == nil {
					t.Fatal("End succeeded without a database")
				}
			}
			mend()
			rec, ok, err := w.m.Retain(t.Context(), "v", "1")
			if err != nil || !ok || rec.ID != made.ID {
				t.Fatalf("Retain: %+v, %v, %v", rec, ok, err)
			}
			w.wantMounted(rec, "x")
			leases := 1
			if mode != "private" {
				rec, ok, err := w.m.Join(t.Context(), "v", "2")
				if err != nil || !ok || rec.ID != made.ID {
					t.Fatalf("Join: %+v, %v, %v", rec, ok, err)
				}
				w.wantMounted(rec, "x")
				leases = 2
			}
			if got := w.m.Leases("v"); len(got) != 1 || len(got[0].Leases) != leases || got[0].Leases["1"] != 2 {
				t.Errorf("leases %+v", got)
			}
			// The engine tries again.
			w.release("v", "1")
			w.release("v", "1")
			if mode != "private" {
				w.release("v", "2")
			}
			if got := w.m.Leases("v"); len(got) > 0 {
				t.Errorf("leases %+v, want none", got)
			}
		})
	}
}

// The End of a kept workspace that fails in its commit leaves it mounted.
func TestFailedEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, dir := w.open("v", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "x")
	w.release("v", "1")
	mend := w.breakDB()
	if err := w.m.End(t.Context(), "v", func(*meta.Tx) error { return nil }); err == nil {
		t.Fatal("End succeeded without a database")
	}
	mend()
	rec, ok := w.m.Kept("v")
	if !ok || rec.ID != made.ID {
		t.Fatalf("kept: %+v, %v", rec, ok)
	}
	w.wantMounted(rec, "x")
}

// A workspace whose mount has gone under a running plugin has lost its leases. A
// kept one is mounted again, another one has ended.
func TestMountVanished(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			made, dir := w.open("v", "1", "mode", mode)
			write(t, filepath.Join(dir, "mine"), "x")
			testdir.Unmount(t, w.root)
			if rec, ok, err := w.m.Retain(t.Context(), "v", "1"); ok || err != nil {
				t.Fatalf("Retain: %+v, %v, %v", rec, ok, err)
			}
			if mode != "private" {
				rec, ok, err := w.m.Join(t.Context(), "v", "1")
				if err != nil || ok != (mode == "keep") {
					t.Fatalf("Join: %+v, %v, %v", rec, ok, err)
				}
			}
			switch mode {
			case "keep":
				rec, _ := w.m.Kept("v")
				if rec.ID != made.ID || len(rec.Leases) != 1 || rec.Leases["1"] != 1 {
					t.Errorf("kept: %+v", rec)
				}
				w.wantMounted(rec, "x")
			default:
				reaped(t, w)
				if got := w.m.Leases("v"); len(got) > 0 {
					t.Errorf("leases: %+v", got)
				}
				if rec, _ := w.open("v", "1", "mode", mode); rec.ID == made.ID {
					t.Error("what had ended was leased again")
				}
			}
			w.release("v", "1")
		})
	}
}

// A shared workspace whose mount has gone, and which a container still has, is not
// shared anew before that ends. Not parallel: the holder would keep the workspaces
// of other tests, too.
func TestSharedVanishedWhileHeld(t *testing.T) {
	w := newWorld(t)
	w.held = time.Nanosecond
	w.m.HeldWait = w.held
	_, dir := w.open("v", "1", "mode", "shared")
	h := hold(t, w.root, dir)
	testdir.Unmount(t, w.root)
	for range 2 {
		_, _, err := w.m.Join(t.Context(), "v", "2")
		refused(t, "Join", err, `volume "v"`, "a container that outlived", "run it again")
	}
	w.release("v", "1") // the engine's late Unmount
	h.end()
	testdir.Eventually(t, "the workspace to be free", func() bool {
		_, ok, err := w.m.Join(t.Context(), "v", "2")
		return err == nil && !ok
	})
}

// A workspace that has ended and could not be detached is detached by its reaper.
func TestReaperDetaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, _ := w.open("v", "1")
	w.m.mu.Lock()
	ws := w.m.all[made.ID]
	w.m.mu.Unlock()
	_, err := w.m.change(ws, func(rec *meta.Workspace) error {
		rec.Phase, rec.EndedAt, rec.Leases = meta.Ended, w.m.Now(), nil
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.m.reapSoon(ws, func() {})
	reaped(t, w)
	if points, err := testdir.Mounts(w.root); err != nil || len(points) > 0 || len(w.workspaces()) > 0 {
		t.Errorf("left: %v, %v, %q", points, err, w.workspaces())
	}
}

// The engine unmounted everything, and a container went on: its mount ID gets no other
// workspace, however often the plugin starts. Not parallel, as above.
func TestLostLeaseOfContainer(t *testing.T) {
	w := newWorld(t)
	w.held = 1
	made, dir := w.open("v", "1")
	h := hold(t, w.root, dir)
	w.close()
	testdir.Unmount(t, w.root)
	for range 3 {
		w.restart()
		if rec, ok, err := w.m.Retain(t.Context(), "v", "1"); !errors.Is(err, ErrHeld) {
			t.Fatalf("Retain: %+v, %v, %v", rec, ok, err)
		}
		w.release("v", "1")
	}
	if rec, _ := w.open("v", "2"); rec.ID == made.ID {
		t.Error("another lease got the workspace")
	}
	h.end()
	testdir.Eventually(t, "the workspace to be free", func() bool {
		_, ok, err := w.m.Retain(t.Context(), "v", "1")
		return err == nil && !ok
	})
	testdir.Eventually(t, "nothing to be left of the lease", func() bool {
		w.m.mu.Lock()
		defer w.m.mu.Unlock()
		return len(w.m.orphans) == 0
	})
}
