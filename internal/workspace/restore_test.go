package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// TestRestoreOnce: of concurrent restores and evictions of a discard one succeeds.
func TestRestoreOnce(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	for i := range 5 {
		d := w.discard("v")
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []string
		for _, name := range []string{"a", "b", "c", "evict", "evict"} {
			name += string(rune('0' + i))
			wg.Go(func() {
				err := error(nil)
				if name[0] == 'e' {
					err = w.m.EvictDiscard(d.ID)
				} else {
					err = w.restore(d.ID, name)
				}
				var missing *NoDiscardError
				var used *InUseError
				if err != nil && !errors.As(err, &missing) && !errors.As(err, &used) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, name)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%q have it", won)
		}
		rec, ok := w.m.Kept(won[0])
		if evicted := won[0][0] == 'e'; ok == evicted || ok && rec.ID != d.ID {
			t.Errorf("%s won: kept %+v, %v", won[0], rec, ok)
		}
	}
}

// TestRestoreFails: after a failed Restore, the discard is as before, on disk too.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	d := w.discard("v")
	rec, err := w.m.Discarded(d.ID)
	if err != nil {
		t.Fatal(err)
	}
	o, err := volume.Parse(rec.Options, nil, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := w.m.Restore(t.Context(), d.ID, "new", o, func(*meta.Tx) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Restore: %v", err)
	}
	for range 2 {
		if got := w.discardOf(d.ID); got.Volume != "v" || !got.EndedAt.Equal(d.EndedAt) {
			t.Errorf("%+v, want %+v", got, d)
		}
		if _, ok := w.m.Kept("new"); ok {
			t.Error("the new volume has it")
		}
		w.rebuild()
	}
	trees := filepath.Join(w.root, "clones", rec.Clone, "trees")
	if err := os.RemoveAll(trees); err != nil {
		t.Fatal(err)
	}
	refused(t, "Restore without the layers", w.restore(d.ID, "new"), trees, "no such file")
}

// TestSweepLeavesRestoredWorkspace: neither a sweep nor an earlier reaper changes a restored
// workspace. When its volume is removed, it becomes a discard again.
func TestSweepLeavesRestoredWorkspace(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	d := w.discard("v")
	for range 3 {
		if err := w.restore(d.ID, "new"); err != nil {
			t.Fatal(err)
		}
		refused(t, "Evict", w.m.EvictDiscard(d.ID), d.ID, `volume "new" has it`)
		_, dir := w.join("new", "1")
		if err := w.m.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if content(t, filepath.Join(dir, "mine")) != "x" {
			t.Error("it is gone")
		}
		w.release("new", "1")
		if err := w.m.End(t.Context(), "new", func(tx *meta.Tx) error { return tx.DeleteVolume("new") }); err != nil {
			t.Fatal(err)
		}
		reaped(t, w)
		if got := w.discardOf(d.ID); got.Volume != "new" || !got.EndedAt.After(d.EndedAt) {
			t.Errorf("%+v", got)
		}
	}
}
