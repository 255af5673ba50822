package work

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Lock is a mutual exclusion lock whose Acquire takes a context. Those that wait for it are
// callers of the job that holds it, so it is as urgent: otherwise a mount would wait for a fetch
// that itself waits behind all other mounts, for a slot to begin or, when its pack is there, to
// resolve deltas. Urgent jobs get the lock first, others in the order of their calls. The zero
// value is unlocked.
type Lock struct {
	mu      sync.Mutex
	held    bool
	job     *Job // of the holder; may be nil
	waiting []*waiter
}

type waiter struct {
	job     *Job          // a caller of the holder's job; may be nil
	granted chan struct{} // closed when the waiter holds the lock
}

// Acquire waits for the lock, which the job of ctx then holds. unlock must be called once.
// If ctx ends first, the error is its cause.
func (l *Lock) Acquire(ctx context.Context) (unlock func(), err error) {
	l.mu.Lock()
	if !l.held {
		defer l.mu.Unlock()
		l.held, l.job = true, JobOf(ctx)
		return l.unlock, nil
	}
	w := &waiter{job: JobOf(ctx), granted: make(chan struct{})}
	l.job.join(w.job)
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	defer Waited(ctx, aLock, time.Now())
	select {
	case <-w.granted:
		return l.unlock, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.job.leave(w.job)
	}
	l.mu.Unlock()
	if i < 0 { // the lock was granted meanwhile
		l.unlock()
	}
	return nil, context.Cause(ctx)
}

// Try takes the lock without a job, if it is free.
func (l *Lock) Try() (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		return nil, false
	}
	l.held, l.job = true, nil
	return l.unlock, true
}

// unlock gives the lock to the next waiter.
func (l *Lock) unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.held, l.job = false, nil
		return
	}
	i := max(slices.IndexFunc(l.waiting, func(w *waiter) bool { return w.job.Urgent() }), 0)
	before, next := l.job, l.waiting[i]
	before.leave(next.job)
	l.job, l.waiting = next.job, slices.Delete(l.waiting, i, i+1)
	for _, w := range l.waiting {
		before.leave(w.job)
		l.job.join(w.job)
	}
	close(next.granted)
}
