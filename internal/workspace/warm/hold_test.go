package warm

import (
	"slices"
	"testing"
)

// TestUsedLayersStay checks that layers stay while a workspace uses them.
func TestUsedLayersStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/a", "1") })
	old := w.open(nm)
	w.run(nm, func(s *session) { s.remove("nm"); s.write("nm/a", "2") })
	if h := w.m.Heads(cloneKey)[0]; h.Held || h.Size.Inodes == 0 || h.Used.IsZero() {
		t.Errorf("head %+v", h)
	}
	if got := len(w.layers()); got != 2 {
		t.Errorf("%d layers", got)
	}
	old.has("nm", "a=1")
	// After a restart the records of workspaces hold layers.
	w.restart("boot 1")
	w.m.Hold(cloneKey, old.Paths)
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.layers()); got != 2 {
		t.Errorf("%d layers after a restart", got)
	}
	old.end()
	if got := w.layers(); !slices.Equal(got, w.chain()) {
		t.Errorf("layers %q, head %q", got, w.chain())
	}
	s := w.open(nm)
	if h := w.m.Heads(cloneKey)[0]; !h.Held {
		t.Errorf("head %+v", h)
	}
	s.has("nm", "a=2")
	s.end()
	_, undo := w.m.Evicting(cloneKey)
	undo()
	heads := w.m.Heads(cloneKey)
	if len(heads) != 1 {
		t.Fatalf("%d heads after an eviction that failed, want 1", len(heads))
	}
	if size := w.m.Size(cloneKey); size != heads[0].Size || size.Inodes == 0 {
		t.Errorf("a clone's warm layers take %+v, want %+v", size, heads[0].Size)
	}
	del, _ := w.m.Evicting(cloneKey)
	layers := w.m.config.Layers.Set(cloneKey)
	if err := layers.Forget(layers.List(), del, del); err != nil { // twice, because a transaction may be repeated
		t.Fatal(err)
	}
	w.sees(nm, "nm")
	if state := w.records(); len(w.layers())+len(state.WarmHeads)+len(state.WarmLayers) > 0 || w.m.Size(cloneKey).Inodes != 0 {
		t.Errorf("left: %q, %+v, %+v", w.layers(), state.WarmHeads, state.WarmLayers)
	}
}

// TestEvictedCountsAtOnce checks that the trash knows the size of evicted layers.
func TestEvictedCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/a", "1") })
	w.run(nm, func(s *session) { s.write("nm/b", "2") })
	h, before := w.m.Heads(cloneKey)[0], w.m.config.Trash.Stats()
	if err := w.m.Evict(t.Context(), cloneKey, h.Key); err != nil {
		t.Fatal(err)
	}
	after := w.m.config.Trash.Stats()
	if got := after.Size.Sub(before.Size); got != h.Size || got.Inodes == 0 || after.Unmeasured != before.Unmeasured {
		t.Errorf("%+v more in the trash, want the head's %+v", got, h.Size)
	}
}
