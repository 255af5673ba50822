package work

import (
	"context"
	"slices"
	"sync"
)

// Lock is a mutual exclusion lock that can be waited for with a context. A job that
// holds it is as urgent as the parties that wait for it, because a mount must not wait
// behind work that waits for its turn behind everybody's mounts. Urgent parties get the
// lock first, others in the order in which they asked. The zero value is unlocked.
type Lock struct {
	mu      sync.Mutex
	held    bool
	job     *Job // the holder's; may be nil
	waiting []*waiter
}

type waiter struct {
	party   Party
	job     *Job
	leave   func()        // takes its urgency back from the holder
	granted chan struct{} // closed when it is the holder
}

// Acquire waits until nobody holds the lock, or ctx ends; then the error is ctx's cause.
// The lock is then held by the job of ctx until unlock is called, once.
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
	if i < 0 { // it was granted meanwhile
		l.unlock()
	}
	return nil, context.Cause(ctx)
}

// Try takes the lock, for nobody's job, if nobody holds it.
func (l *Lock) Try() (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		return nil, false
	}
	l.held, l.job = true, nil
	return l.unlock, true
}

// unlock passes the lock on.
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
