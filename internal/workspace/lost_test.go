package workspace

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

var modes = []string{"private", "shared", "keep"}

// breakDB makes every commit fail, as on a disk with errors, until mend is called.
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
		w.m.config.DB, w.close = db, sync.OnceFunc(func() {
			w.m.config.Work.Close()
			db.Close()
		})
		w.t.Cleanup(w.close)
	}
}

// wantMounted checks that the workspace rec is mounted, and has text in the file "mine".
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

// A Release whose commit fails changes nothing: no Mount is answered with a directory that
// is not the workspace.
func TestFailedRelease(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			made, dir := w.open("v", "1", "mode", mode)
			write(t, filepath.Join(dir, "mine"), "x")
			mend := w.breakDB()
			if _, err := w.m.Release(t.Context(), Lease{"v", "1"}); err == nil {
				t.Fatal("Release succeeded without a database")
			}
			if mode == "keep" {
				if err := w.m.End(t.Context(), "v", func(*meta.Tx) error { return nil }); err == nil {
					t.Fatal("End succeeded without a database")
				}
			}
			mend()
			rec, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"})
			if err != nil || !ok || rec.ID != made.ID {
				t.Fatalf("Lookup: %+v, %v, %v", rec, ok, err)
			}
			w.wantMounted(rec, "x")
			leases := 1
			if mode != "private" {
				rec, ok, err := w.m.Join(t.Context(), Lease{"v", "2"})
				if err != nil || !ok || rec.ID != made.ID {
					t.Fatalf("Join: %+v, %v, %v", rec, ok, err)
				}
				w.wantMounted(rec, "x")
				leases = 2
			}
			if got := w.m.Leases("v"); len(got) != 1 || len(got[0].Leases) != leases || !got[0].Leases.Has("1") {
				t.Errorf("leases %+v", got)
			}
			// The engine tries again.
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

// An End whose commit fails leaves the kept workspace mounted.
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

// A workspace that is unmounted while the plugin runs has lost its leases. A kept workspace
// is mounted again, others have ended.
func TestMountVanished(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			made, dir := w.open("v", "1", "mode", mode)
			write(t, filepath.Join(dir, "mine"), "x")
			testdir.Unmount(t, w.root)
			if rec, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"}); ok || err != nil {
				t.Fatalf("Lookup: %+v, %v, %v", rec, ok, err)
			}
			if mode != "private" {
				rec, ok, err := w.m.Join(t.Context(), Lease{"v", "1"})
				if err != nil || ok != (mode == "keep") {
					t.Fatalf("Join: %+v, %v, %v", rec, ok, err)
				}
			}
			switch mode {
			case "keep":
				rec, _ := w.m.Kept("v")
				if rec.ID != made.ID || !slices.Equal(rec.Leases, meta.Leases{"1"}) {
					t.Errorf("kept: %+v", rec)
				}
				w.wantMounted(rec, "x")
			default:
				reaped(t, w)
				if got := w.m.Leases("v"); len(got) > 0 {
					t.Errorf("leases: %+v", got)
				}
				if rec, _ := w.open("v", "1", "mode", mode); rec.ID == made.ID {
					t.Error("an ended workspace was leased again")
				}
			}
			w.release("v", "1")
		})
	}
}

// If the overlay of a shared workspace is gone, and a container still uses it, the volume
// gets no other workspace before the container ends. Not parallel: the holder would keep
// the workspaces of other tests busy.
func TestSharedVanishedWhileHeld(t *testing.T) {
	w := newWorld(t)
	w.held = time.Nanosecond
	w.m.config.HeldWait = w.held
	_, dir := w.open("v", "1", "mode", "shared")
	h := hold(t, w.root, dir)
	testdir.Unmount(t, w.root)
	for range 2 {
		_, _, err := w.m.Join(t.Context(), Lease{"v", "2"})
		refused(t, "Join", err, `volume "v"`, "a container that outlived", "run it again")
	}
	w.release("v", "1") // the engine's late Unmount
	h.end()
	wait.For(t, "the workspace to be free", func() error {
		_, ok, err := w.m.Join(t.Context(), Lease{"v", "2"})
		return wait.Check(err == nil && !ok, "found %t, %v", ok, err)
	})
}

// The reaper detaches an ended workspace that could not be detached before.
func TestReaperDetaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, _ := w.open("v", "1")
	w.m.records.mu.Lock()
	ws := w.m.records.all[made.ID]
	w.m.records.mu.Unlock()
	_, err := w.m.records.change(t.Context(), ws, func(rec *meta.Workspace) error {
		rec.Phase, rec.EndedAt, rec.Leases = meta.Ended, w.m.config.Now(), nil
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.m.reaper.start(t.Context(), ws, func() {})
	reaped(t, w)
	if points, err := testdir.Mounts(w.root); err != nil || len(points) > 0 || len(w.workspaces()) > 0 {
		t.Errorf("left: %v, %v, %q", points, err, w.workspaces())
	}
}

// After the engine unmounted everything, a container that still runs has a lost lease: its
// mount ID gets no other workspace, however often the plugin starts. Not parallel, as above.
func TestLostLeaseOfContainer(t *testing.T) {
	w := newWorld(t)
	w.held = 1
	made, dir := w.open("v", "1")
	h := hold(t, w.root, dir)
	w.close()
	testdir.Unmount(t, w.root)
	for range 3 {
		w.restart()
		if rec, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"}); !errors.Is(err, ErrHeld) {
			t.Fatalf("Lookup: %+v, %v, %v", rec, ok, err)
		}
		w.release("v", "1")
	}
	if rec, _ := w.open("v", "2"); rec.ID == made.ID {
		t.Error("another lease got the workspace")
	}
	h.end()
	wait.For(t, "the workspace to be free", func() error {
		_, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"})
		return wait.Check(err == nil && !ok, "found %t, %v", ok, err)
	})
	wait.For(t, "nothing to be left of the lease", func() error {
		return wait.Check(!slices.ContainsFunc(w.m.Workspaces(), func(rec meta.Workspace) bool { return len(rec.Lost) > 0 }), "%+v", w.m.Workspaces())
	})
}
