package work

import (
	"context"
	"slices"
	"sync"
)

// Lock is a mutual exclusion lock whose Acquire takes a context. The job that holds it is
// as urgent as the parties that wait for it: otherwise a mount would wait for a job that
// itself waits for a slot behind all other mounts. Urgent parties get the lock first,
// others in the order of their calls. The zero value is unlocked.
type Lock struct {
	mu      sync.Mutex
	held    bool
	job     *Job // of the holder; may be nil
	waiting []*waiter
}

type waiter struct {
	party   Party
	job     *Job
	leave   func()        // removes the waiter from the callers of the holder's job
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
	w := &waiter{party: PartyOf(ctx), job: JobOf(ctx), granted: make(chan struct{})}
	w.leave = l.job.join(w.party)
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	select {
	case <-w.granted:
		return l.unlock, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		w.leave()
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
	l.held, l.job = false, nil
	if len(l.waiting) == 0 {
		return
	}
	i := max(slices.IndexFunc(l.waiting, func(w *waiter) bool { return w.party.Urgent() }), 0)
	next := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	next.leave()
	l.held, l.job = true, next.job
	for _, w := range l.waiting {
		w.leave()
		w.leave = l.job.join(w.party)
	}
	close(next.granted)
}
