package layer

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

// TestSync: layers are durable when their records say so, and if they don't the next
// sync tries again.
func TestSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.make(meta.GitLayer, "g")
	w.must(w.set.Settle(t.Context(), meta.Tree, "unknown"))
	if n := len(w.store.pending()); n != 2 {
		t.Errorf("%d layers wait, want 2", n)
	}
	w.must(w.store.DB.Close())
	if err := w.store.Sync(t.Context()); err == nil {
		t.Error("a sync without a database")
	}
	if n := len(w.store.pending()); n != 2 {
		t.Errorf("%d layers wait after a failure, want 2", n)
	}
	w.restart("boot 1")
	w.must(w.set.Settle(t.Context(), meta.Tree, "a"))
	w.restart("boot 1")
	for _, l := range w.set.List() {
		if !l.Durable {
			t.Errorf("%s %s is not durable", l.Kind, l.ID)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.store.rounds.token <- struct{}{} // one is under way
	if err := w.store.Sync(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a sync that is not waited for: %v", err)
	}
	<-w.store.rounds.token
}

// TestSyncIsShared: of those that ask while one is under way, each has a round that
// began later.
func TestSyncIsShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.rounds.token <- struct{}{}
	var all sync.WaitGroup
	const n = 8
	for range n {
		all.Go(func() {
			if err := w.store.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-w.store.rounds.token
	all.Wait()
	if got, done := w.store.rounds.begun.Load(), w.store.rounds.done.Load(); got < 1 || got > n || done != got {
		t.Errorf("%d rounds, the last that succeeded %d", got, done)
	}
}

// TestRun: new layers, and those that an earlier run has not come to, become durable.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.restart("boot 1")
	w.store.Background(w.store.Run)
	isDurable := func(id string) func() bool {
		return func() bool { l, _ := w.set.Get(meta.Tree, id); return l.Durable }
	}
	testdir.Eventually(t, "a to be durable", isDurable("a"))
	w.make(meta.Tree, "b")
	testdir.Eventually(t, "b to be durable", isDurable("b"))
}
