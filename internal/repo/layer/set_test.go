package layer

import (
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// TestHold checks that Withdraw leaves held layers alone, and that holds are counted.
func TestHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.publish(meta.Tree, "a"), w.publish(meta.Tree, "b", "a")
	if !w.set.HoldKnown(b) {
		t.Fatal("b is unknown")
	}
	w.set.Hold(meta.Tree, "a")
	w.set.Drop(meta.Tree, b.Chain...)
	if !w.set.Held(meta.Tree, "a") || w.set.Held(meta.Tree, "b") || !w.set.InUse(meta.Tree) || w.set.InUse(meta.GitLayer, meta.WarmLayer) {
		t.Error("want a to be held, and no other layer")
	}
	withdrawn := w.set.Withdraw(w.set.List())
	if len(withdrawn) != 1 || withdrawn[0].ID != "b" || w.set.HoldKnown(b) {
		t.Errorf("withdrawn: %+v, want b, and that nobody can hold it", withdrawn)
	}
	w.must(w.set.Remove(withdrawn))
	w.set.Drop(meta.Tree, "a")
	if w.set.Held(meta.Tree, "a") || len(w.set.Withdraw([]meta.Layer{b})) > 0 || !w.set.HoldKnown(a) {
		t.Error("want a not to be held, and b to be unknown")
	}
	w.wants("a")
}

func TestTouchAndMeasure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(meta.Tree, "a")
	w.publish(meta.WarmLayer, "w")
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
	w.must(w.store.config.DB.Update(func(tx *meta.Tx) error { return w.set.Save(tx, append(append(list, measured...), gone)...) }))
	w.restart("boot 1")
	l, _ := w.set.Get(meta.Tree, "a")
	if !l.Used.Equal(at) || l.Size.Bytes < 10_000 || l.Size.At.IsZero() || w.set.SizeOf(meta.Tree, "a", "unknown") != l.Size.Size {
		t.Errorf("%+v", l)
	}
	w.wants("a")
}
