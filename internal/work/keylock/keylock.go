// Package keylock provides locks by key, whose Lock takes a context.
//
// Holders of different keys never wait for each other, and a key that nobody holds or
// waits for takes no memory. Waiters are served in no particular order.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of locks. The zero value is ready. It is safe for concurrent
// use.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]*lock
}

type lock struct {
	token chan struct{}
	users int // holder and waiters
}

// Lock waits until nobody holds key. If ctx ends before, the error is ctx's cause. unlock
// may be called more than once.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[K]*lock)
	}
	k, ok := l.held[key]
	if !ok {
		k = &lock{token: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case k.token <- struct{}{}:
		return sync.OnceFunc(func() { <-k.token; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
