package clone

import (
	"errors"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
)

// TestSyncIsNotRecorded: layers are durable when their records say so, and the next
// sync tries again.
func TestSyncIsNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	c, full := w.clone(s), errors.New("the disk is full")
	for _, set := range c.sets() {
		put := set.put
		set.put = func(tx *meta.Tx, l meta.Layer) error {
			if l.Durable {
				return full
			}
			return put(tx, l)
		}
	}
	w.prepare(s).Release()
	if err := w.m.Sync(t.Context()); !errors.Is(err, full) {
		t.Errorf("sync: %v, want %v", err, full)
	}
	w.m.rounds.token <- struct{}{} // no sync is under way
	defer func() { <-w.m.rounds.token }()
	if got := len(w.m.pendingLayers()); got != 2 {
		t.Errorf("%d layers wait for a sync, want 2", got)
	}
}
