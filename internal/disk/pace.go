package disk

import (
	"context"
	"sync/atomic"
	"time"
)

// slice is how long a paced walk works before it rests: a system call that waits
// for the disk may make it longer, and the rest with it.
const slice = 5 * time.Millisecond

// Pace has what goes over many files leave the disk and the processor to others:
// it rests in proportion to the time that it worked. The zero value never rests.
// A Pace serves one walk at a time; SetRest may be called at any time.
type Pace struct {
	rest  atomic.Int64 // rest for each work, in hundredths
	wake  chan struct{}
	calls int
	// since is when it last looked at the clock; zero while it is stopped.
	since time.Time
	// worked is the time at work since the last rest, in this walk and those before.
	worked time.Duration
}

// NewPace returns a Pace that rests percent of the time that it worked: 300 is a
// quarter of the time at work.
func NewPace(percent int64) *Pace {
	p := &Pace{wake: make(chan struct{}, 1)}
	p.SetRest(percent)
	return p
}

// SetRest changes the proportion; 0 is full speed. It ends a rest.
func (p *Pace) SetRest(percent int64) {
	p.rest.Store(percent)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pause is called before each piece of work, and rests when it is time to. The
// first call after a stop starts the clock. The error is the context's. A nil Pace
// never rests.
func (p *Pace) pause(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	rest := p.rest.Load()
	if rest == 0 { // work at full speed is not rested for later
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

// stop ends the work of a walk: the time until the next one is not work. A nil Pace
// does nothing.
func (p *Pace) stop() {
	if p == nil {
		return
	}
	p.count()
	p.since, p.calls = time.Time{}, 0
}

// count adds the time since it last looked at the clock to the work.
func (p *Pace) count() {
	if !p.since.IsZero() {
		p.worked += time.Since(p.since)
	}
}
