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
	began time.Time
	calls int
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

// Pause is called before each piece of work, and rests when it is time to. The
// error is the context's. A nil Pace never rests.
func (p *Pace) Pause(ctx context.Context) error {
	if p == nil || p.rest.Load() == 0 {
		return ctx.Err()
	}
	if p.calls++; p.calls%16 != 1 {
		return ctx.Err()
	}
	worked := time.Since(p.began)
	if p.began.IsZero() || worked < slice {
		if p.began.IsZero() {
			p.began = time.Now()
		}
		return ctx.Err()
	}
	timer := time.NewTimer(worked * time.Duration(p.rest.Load()) / 100)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.wake:
	}
	p.began = time.Now()
	return ctx.Err()
}
