package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/wait"
)

// forceable returns a world in which n containers have the workspaces, and leases are no
// longer new.
func forceable(t *testing.T, n int64) (*world, *containers) {
	t.Helper()
	w := newCheckpointWorld(t)
	c := &containers{}
	c.n.Store(n)
	w.m.copies, w.m.config.StartWait = c.holders, 1
	return w, c
}

func (w *world) force(holder string) error {
	_, err := w.m.ForceRelease(w.t.Context(), "v", holder)
	return err
}

// wantInUse checks that err is an *InUseError with some words.
func wantInUse(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if _, ok := errors.AsType[*InUseError](err); !ok {
		t.Errorf("%s: %v, want an *InUseError", what, err)
		return
	}
	refused(t, what, err, words...)
}

// TestForceRelease checks that a lease goes only when the kernel says that nobody uses the
// workspace, which then ends as after a Release.
func TestForceRelease(t *testing.T) {
	t.Parallel()
	w, c := forceable(t, 1)
	rec, dir := w.open("v", "1")
	w.copy("1")
	write(t, filepath.Join(dir, "mine"), "x")
	wantInUse(t, "with a container", w.force("1"), "a container has the workspace", "docker ps --filter volume=v")
	c.n.Store(-1)
	wantInUse(t, "with an old kernel", w.force("1"), "the kernel can't tell")
	c.n.Store(0)
	w.m.config.StartWait = time.Hour
	wantInUse(t, "after the mount", w.force("1"), "mounted just now", "run it again in")
	w.m.config.StartWait = 1
	f, err := os.Open(filepath.Join(dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	wantInUse(t, "with an open file", w.force("1"), "a process on this machine uses", dir)
	w.wantMounted(rec, "x")
	if entries(t, filepath.Join(dir, ".git/hdcache")) == nil {
		t.Error("the workspace has lost its cache")
	}
	w.wantLeases("refused", "1", "1#2")
	f.Close()
	if _, ok := errors.AsType[*NoLeaseError](w.force("2")); !ok {
		t.Error("an unknown holder has a lease")
	}
	if err := w.force("1"); err != nil {
		t.Fatal(err)
	}
	w.wantLeases("released")
	if mounted, err := overlay.Mounted(dir); err != nil || mounted {
		t.Errorf("mounted: %v, %v", mounted, err)
	}
	w.release("v", "1#2") // of an engine that is late
	w.release("v", "1")
	wait.For(t, "the checkpoint", func() error { return wait.Equal(len(w.m.Checkpoints()), 1) })
	if d := w.m.Checkpoints()[0]; d.ID != rec.ID {
		t.Errorf("the checkpoint is %+v, want that of %s", d, rec.ID)
	}
	if _, ok := errors.AsType[*NoLeaseError](w.force("1")); !ok {
		t.Error("a lease was released twice")
	}
	if again, _ := w.open("v", "1"); again.ID == rec.ID {
		t.Error("the next mount got the old workspace")
	}
}

// TestForceReleaseOfOneHolder checks that others keep the workspace that they share, and a
// volume the one that it keeps.
func TestForceReleaseOfOneHolder(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, c := forceable(t, 1)
			rec, dir := w.open("v", "1", "mode", mode)
			w.join("v", "2")
			write(t, filepath.Join(dir, "mine"), "x")
			wantInUse(t, "with the container of another", w.force("1"), "a container has the workspace")
			c.n.Store(0)
			if err := w.force("1"); err != nil {
				t.Fatal(err)
			}
			w.wantLeases("one released", "2")
			w.wantMounted(rec, "x")
			if err := w.force("2"); err != nil {
				t.Fatal(err)
			}
			w.wantLeases("both released")
			if mode == "keep" {
				w.wantMounted(rec, "x")
				return
			}
			wait.For(t, "the checkpoint", func() error { return wait.Equal(len(w.m.Checkpoints()), 1) })
		})
	}
}

// TestForceReleaseOfInherited checks a lease of an earlier process, whose overlay a crash of
// the machine took, and one that a container without a mount of ours still uses.
func TestForceReleaseOfInherited(t *testing.T) {
	t.Parallel()
	w, c, rec := inherited(t, 1, "private", "1")
	w.m.config.StartWait = 1
	wantInUse(t, "with a container", w.force("1"))
	c.n.Store(0)
	if err := w.force("1"); err != nil {
		t.Fatal(err)
	}
	w.wantLeases("released")
	reaped(t, w)

	rec, dir := w.open("v", "3")
	w.m.copies = overlay.Copies
	hold, err := overlay.Detach(dir) // as a container that outlived the plugin keeps it
	if err != nil {
		t.Fatal(err)
	}
	wantInUse(t, "with an overlay that is used elsewhere", w.force("3"))
	if got := w.m.records.get(w.m.records.all[rec.ID]).Leases; !got.Has("3") {
		t.Errorf("leases %q", got)
	}
	if err := hold(); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the release", func() error { return w.force("3") })
}

// TestForceReleaseFails checks that a release whose commit fails can be repeated.
func TestForceReleaseFails(t *testing.T) {
	t.Parallel()
	w, _ := forceable(t, 0)
	w.m.copies = overlay.Copies
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	mend := w.breakDB()
	if err := w.force("1"); err == nil {
		t.Fatal("it succeeded without a database")
	}
	w.wantLeases("failed", "1")
	mend()
	wait.For(t, "the release", func() error { return w.force("1") })
	w.wantLeases("released")
	w.restart() // the layers have the closed database
	wait.For(t, "the checkpoint", func() error {
		list := w.m.Checkpoints()
		return wait.Check(len(list) == 1 && list[0].ID == rec.ID, "%+v, want %s", list, rec.ID)
	})
}

// TestForceReleaseRaces checks that of many releases at once, by force and by the engine, none
// fails, and that each workspace ends once.
func TestForceReleaseRaces(t *testing.T) {
	t.Parallel()
	w, _ := forceable(t, 0)
	for range 20 {
		_, dir := w.open("v", "1")
		w.copy("1")
		write(t, filepath.Join(dir, "mine"), "x")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				err := w.force("1")
				if _, none := errors.AsType[*NoLeaseError](err); err != nil && !none {
					t.Error(err)
				}
			})
			for _, id := range []string{"1", "1#2"} {
				all.Go(func() {
					if _, err := w.m.Release(t.Context(), Lease{"v", id}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		w.wantLeases("released")
	}
	wait.For(t, "the checkpoints", func() error { return wait.Equal(len(w.m.Checkpoints()), 20) })
	for _, rec := range w.records() {
		if rec.Phase != meta.Checkpoint {
			t.Errorf("workspace %s is %s", rec.ID, rec.Phase)
		}
	}
}
