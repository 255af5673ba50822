package layer

import (
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// TestHold: what is held is not taken, and counts as often as it was held.
func TestHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.make(meta.Tree, "a"), w.make(meta.Tree, "b", "a")
	if !w.set.HoldKnown(b) {
		t.Fatal("not there")
	}
	w.set.Hold(meta.Tree, "a")
	w.set.Drop(meta.Tree, b.Chain...)
	if !w.set.Held(meta.Tree, "a") || w.set.Held(meta.Tree, "b") || !w.set.InUse(meta.Tree) || w.set.InUse(meta.GitLayer, meta.WarmLayer) {
		t.Error("held: want a, and no other")
	}
	taken := w.set.Withdraw(w.set.List())
	if len(taken) != 1 || taken[0].ID != "b" || w.set.HoldKnown(b) {
		t.Errorf("taken: %+v, want b, which nobody can hold then", taken)
	}
	w.must(w.set.Remove(taken))
	w.set.Drop(meta.Tree, "a")
	if w.set.Held(meta.Tree, "a") || len(w.set.Withdraw([]meta.Layer{b})) > 0 || !w.set.HoldKnown(a) {
		t.Error("a is to be free, and b gone")
	}
	w.wants("a")
}

func TestTouchAndMeasure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.make(meta.WarmLayer, "w")
	at := time.Now().Add(time.Hour).Round(0)
	list := w.set.Touch(at, func(used time.Time) bool { return used.IsZero() }, meta.Tree, "a", "unknown")
	if len(list) != 1 || len(w.set.Touch(at, func(used time.Time) bool { return used.IsZero() }, meta.Tree, "a")) > 0 {
		t.Errorf("touched %+v, want a, once", list)
	}
	w.must(w.store.Sync(t.Context()))
	measured, err := w.set.Measure(t.Context(), disk.NewPace(0))
	if err != nil || len(measured) != 2 || len(w.set.Unmeasured()) > 0 {
		t.Errorf("measured %+v, %v", measured, err)
	}
	gone := meta.Layer{Kind: meta.Tree, ID: "gone"}
	w.must(w.store.DB.Update(func(tx *meta.Tx) error { return w.set.Save(tx, append(append(list, measured...), gone)...) }))
	w.restart("boot 1")
	l, _ := w.set.Get(meta.Tree, "a")
	if !l.Used.Equal(at) || l.Size.Bytes < 10_000 || l.Size.At.IsZero() || w.set.SizeOf(meta.Tree, "a", "unknown") != l.Size.Size {
		t.Errorf("%+v", l)
	}
	w.wants("a")
}
