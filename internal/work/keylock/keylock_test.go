package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestLockExcludes(t *testing.T) {
	var l Locks[string]
	var n int // guarded by the lock of "a"
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			unlock, err := l.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			n++
		})
	}
	wg.Wait()
	if n != 50 {
		t.Errorf("got %d, want 50", n)
	}
	if len(l.held) != 0 {
		t.Errorf("%d keys are left", len(l.held))
	}
}

func TestLockOfAnotherKeyDoesNotWait(t *testing.T) {
	var l Locks[string]
	a, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer a()
	b, err := l.Lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	b()
}

func TestLockEndsWithItsContext(t *testing.T) {
	var l Locks[string]
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("hung up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := l.Lock(ctx, "a"); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	unlock()
	unlock() // once is enough, twice does no harm
	if len(l.held) != 0 {
		t.Errorf("%d keys are left", len(l.held))
	}
}
