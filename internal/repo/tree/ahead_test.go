package tree

import (
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/wait"
)

// TestClockWasAhead checks that no mount uses a tree that was built while the clock was ahead, nor one that stands on it,
// once the clock is set.
func TestClockWasAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.Advance(24 * time.Hour)
	ahead := w.prepare(s)
	w.Advance(-24 * time.Hour)
	first, second := w.prepare(s), w.prepare(s)
	if first.Tree.ID == ahead.Tree.ID || !slices.Equal(first.Tree.Chain, []string{first.Tree.ID}) {
		t.Errorf("a mount uses %q, with the tree %s of another day", first.Tree.Chain, ahead.Tree.ID)
	}
	if second.Tree.ID != first.Tree.ID {
		t.Error("each mount builds another tree")
	}
	w.next(s)
	next := w.prepare(s)
	if want := []string{next.Tree.ID, first.Tree.ID}; !slices.Equal(next.Tree.Chain, want) {
		t.Errorf("the next tree has the layers %q, want %q", next.Tree.Chain, want)
	}
	for _, h := range []*held{ahead, first, second, next} {
		h.Release()
	}
	wait.For(t, "the tree of another day to go", func() error {
		_, known := w.c.layers.Get(meta.Tree, ahead.Tree.ID)
		return wait.Check(!known, "it is there")
	})
}
