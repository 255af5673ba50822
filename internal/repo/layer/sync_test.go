package layer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/wait"
)

// TestSync checks that a sync records that layers are durable, and that after a failure the
// next sync tries again.
func TestSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(meta.Tree, "a")
	w.publish(meta.GitLayer, "g")
	w.must(w.set.AwaitDurable(t.Context(), meta.Tree, "unknown"))
	if n := len(w.store.pending()); n != 2 {
		t.Errorf("%d layers wait, want 2", n)
	}
	w.must(w.store.config.DB.Close())
	if err := w.store.Sync(t.Context()); err == nil {
		t.Error("a sync succeeded without a database")
	}
	if n := len(w.store.pending()); n != 2 {
		t.Errorf("%d layers wait after a failure, want 2", n)
	}
	w.restart("boot 1")
	w.must(w.set.AwaitDurable(t.Context(), meta.Tree, "a"))
	w.restart("boot 1")
	for _, l := range w.set.List() {
		if !l.Durable {
			t.Errorf("%s %s is not durable", l.Kind, l.ID)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unlock, err := w.store.syncing.Acquire(t.Context()) // a sync is under way
	w.must(err)
	defer unlock()
	if err := w.store.Sync(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a sync whose caller gave up: %v", err)
	}
}

// TestSyncIsShared checks that all callers during a sync get one that began after their
// calls.
func TestSyncIsShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unlock, err := w.store.syncing.Acquire(t.Context())
	w.must(err)
	var all sync.WaitGroup
	const n = 8
	for range n {
		all.Go(func() {
			if err := w.store.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	unlock()
	all.Wait()
	if got, done := w.store.begun.Load(), w.store.done.Load(); got < 1 || got > n || done != got {
		t.Errorf("%d syncs, the last successful one is %d", got, done)
	}
}

// TestRun checks that Run makes new layers durable, and those that an earlier run left
// unsynced.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(meta.Tree, "a")
	w.restart("boot 1")
	w.store.config.Background(w.store.Run)
	isDurable := func(id string) func() error {
		return func() error { l, _ := w.set.Get(meta.Tree, id); return wait.Check(l.Durable, "%+v", l) }
	}
	wait.For(t, "a to be durable", isDurable("a"))
	w.publish(meta.Tree, "b")
	wait.For(t, "b to be durable", isDurable("b"))
}

// TestSyncAwaitsBuilds checks how long a sync waits for the layers that are being built.
func TestSyncAwaitsBuilds(t *testing.T) {
	for _, test := range []struct {
		name   string
		builds time.Duration
		want   time.Duration
	}{
		{"no build", 0, syncAfter},
		{"a short build", syncAfter / 2, syncAfter},
		{"a long build", 5 * syncAfter / 2, 4 * syncAfter},
		{"a build that does not end", 2 * syncMost, syncMost},
	} {
		synctest.Test(t, func(t *testing.T) {
			set := New(Config{}, meta.State{}).Set("clone")
			if test.builds > 0 {
				time.AfterFunc(test.builds, set.Building())
			}
			began := time.Now()
			if err := set.store.awaitBuilds(t.Context()); err != nil || time.Since(began) != test.want {
				t.Errorf("%s: %v after %v, want %v", test.name, err, time.Since(began), test.want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), syncAfter/2)
			defer cancel()
			if err := set.store.awaitBuilds(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v after the end of the context", test.name, err)
			}
		})
	}
}
