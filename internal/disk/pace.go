package disk

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// slice is how long a paced walk works before it rests. A system call that waits for the
// disk makes that, and the rest, longer.
const slice = 5 * time.Millisecond

// Pace slows a walk down, to leave the disk and the processor to others: it rests in
// proportion to the time worked. The zero value never rests. A Pace serves one walk at a
// time; SetRest may be called at any time.
type Pace struct {
	rest  atomic.Int64 // in percent of the time worked
	wake  chan struct{}
	calls int
	// since is when count was last called; zero while stopped.
	since time.Time
	// worked is the working time since the last rest, also that of earlier walks.
	worked time.Duration
}

// NewPace returns a Pace that rests percent of the time worked: with 300 it works a
// quarter of the time.
func NewPace(percent int64) *Pace {
	p := &Pace{wake: make(chan struct{}, 1)}
	p.SetRest(percent)
	return p
}

// SetRest changes the percentage, 0 for full speed, and ends a current rest.
func (p *Pace) SetRest(percent int64) {
	p.rest.Store(percent)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pause is called before each step, and rests when a slice is over. The first call after
// stop starts the clock. The error is the context's. A nil Pace never rests.
func (p *Pace) pause(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	rest := p.rest.Load()
	if rest == 0 { // work at full speed needs no rest later
		p.since, p.worked, p.calls = time.Time{}, 0, 0
		return ctx.Err()
	}
	if p.calls++; p.calls%16 != 1 {
		return ctx.Err()
	}
	p.count()
	p.since = time.Now()
	if p.worked < slice {
		return ctx.Err()
	}
	timer := time.NewTimer(p.worked * time.Duration(rest) / 100)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.wake:
	}
	p.since, p.worked = time.Now(), 0
	return ctx.Err()
}

// stop ends a walk: the time until the next one does not count as work. A nil Pace does
// nothing.
func (p *Pace) stop() {
	if p == nil {
		return
	}
	p.count()
	p.since, p.calls = time.Time{}, 0
}

// count adds the time since the last count to worked.
func (p *Pace) count() {
	if !p.since.IsZero() {
		p.worked += time.Since(p.since)
	}
}

// niceness 15 and above gives a thread the lowest best-effort I/O priority. The idle
// class would be wrong: a thread that waits for the disk within a journal transaction
// blocks all others.
const niceness = 15

// Nice calls f on a thread of low priority, and returns when f has. Goroutines
// that f starts have ordinary priority.
func Nice(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread, and its priority, end with the goroutine.
		runtime.LockOSThread()
		// After an error f runs with ordinary priority.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
		f()
	}()
	<-done
}
