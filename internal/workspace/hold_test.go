package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// take holds a workspace until the end of the test, or its Release.
func (w *world) take(id string) *Hold {
	w.t.Helper()
	h, err := w.m.Hold(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(h.Release)
	return h
}

// TestHoldCheckpoint: a checkpoint that is held can't be evicted, nor does its clone go,
// and afterwards it can.
func TestHoldCheckpoint(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	d := w.leave("v")
	first, second := w.take(d.ID), w.take(d.ID)
	if first.Root != nil || first.Upper != w.m.mounter.Upper(first.Record) || len(first.Lower) < 2 {
		t.Errorf("hold %+v", first)
	}
	first.Release()
	first.Release()
	var used *InUseError
	for name, err := range map[string]error{
		"evict": w.m.EvictCheckpoint(d.ID), "clear": func() error {
			_, err := w.m.Clear(t.Context(), d.Clone, true, func() error { return nil })
			return err
		}(),
	} {
		refused(t, name, err, "somebody looks at", d.ID)
		if name != "clear" && !errors.As(err, &used) {
			t.Errorf("%s: %T", name, err)
		}
	}
	w.checkpointOf(d.ID)
	second.Release()
	third := w.take(d.ID)
	w.forked(d.ID, "again", "1") // who begins with it and who looks at it do not wait for each other
	if third.Context().Err() != nil {
		t.Errorf("the hold's cause %v", context.Cause(third.Context()))
	}
}

// TestHoldParked: a Mount waits for a reader that does not stop only as long as for a container,
// and says why it fails.
func TestHoldParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	w.held = 1
	w.start()
	rec, _ := w.open("v", "1", "mode", "keep")
	w.release("v", "1")
	w.close()
	testdir.Unmount(t, w.root)
	w.restart()
	h := w.take(rec.ID)
	_, _, err := w.m.Join(t.Context(), Lease{"v", "2"})
	refused(t, "Join", err, "somebody looks at", rec.ID, "run it again")
	if h.Context().Err() == nil {
		t.Error("the reader was not asked to stop")
	}
	h.Release()
	w.join("v", "2")
}

// TestHoldMounted: a workspace that is held ends at once, is read to the end, and is reaped then.
func TestHoldMounted(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	h := w.take(rec.ID)
	w.release("v", "1")
	if mounted, err := overlay.Mounted(dir); err != nil || mounted {
		t.Errorf("mounted: %v, %v", mounted, err)
	}
	if got := content(t, fmt.Sprintf("/proc/self/fd/%d/mine", h.Root.Fd())); got != "x" || h.Context().Err() != nil {
		t.Errorf("read %q, %v", got, h.Context().Err())
	}
	_, err := w.m.Hold(t.Context(), rec.ID)
	refused(t, "another hold", err, rec.ID, "has just ended")
	h.Release()
	w.checkpointOf(rec.ID)
}

// TestHoldUnmount: who unmounts a workspace that is held hears why that fails.
func TestHoldUnmount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1", "mode", "keep")
	w.release("v", "1")
	h := w.take(rec.ID)
	err := w.m.ParkUnused(t.Context(), rec.Clone)
	refused(t, "park", err, "somebody looks at", rec.ID)
	h.Release()
	wait.For(t, "the workspace to be parked", func() error { return w.m.ParkUnused(t.Context(), rec.Clone) })
}

// TestHoldVolumeRemoved: the workspace of a removed volume stays while it is held.
func TestHoldVolumeRemoved(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "x")
	w.release("v", "1")
	w.close()
	testdir.Unmount(t, w.root)
	w.restart()
	h := w.take(rec.ID)
	if err := w.m.End(t.Context(), "v", func(tx *meta.Tx) error { return tx.DeleteVolume("v") }); err != nil {
		t.Fatal(err)
	}
	if got := w.m.records.get(w.m.records.all[rec.ID]); got.Phase != meta.Ended || h.Context().Err() != nil {
		t.Errorf("it is %s, %v", got.Phase, h.Context().Err())
	}
	h.Release()
	w.checkpointOf(rec.ID)
}

// TestHoldLife: a hold ends after a while, and with its caller.
func TestHoldLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1")
	ctx, cancel := context.WithCancel(t.Context())
	gone, err := w.m.Hold(ctx, rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Release()
	cancel()
	<-gone.Context().Done()
	w.m.holdLife = 1
	short, err := w.m.Hold(t.Context(), rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer short.Release()
	<-short.Context().Done()
	if err := context.Cause(short.Context()); !errors.Is(err, errHoldLife) {
		t.Error(err)
	}
	none := (*NoWorkspaceError)(nil)
	if _, err := w.m.Hold(t.Context(), "nothing"); !errors.As(err, &none) {
		t.Errorf("an unknown ID: %v", err)
	}
}
