package janitor

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
)

// Stock is what a Janitor looks after. Its methods are called one at a time, but
// for Space, and answer from memory, but for Evict and Hurry.
type Stock interface {
	// Inventory says what there is. It waits until what an earlier run left is
	// known for what it is.
	Inventory(ctx context.Context) (Inventory, error)
	// Evict removes what e names, or says that it is held by now: an error that is
	// ErrHeld. What it frees may be in the trash first: Inventory counts it there from
	// then on, or the next plan would evict as much again.
	Evict(ctx context.Context, e Eviction) error
	// Space says what the filesystem has: a system call.
	Space() (disk.Space, error)
	// Hurry deletes what is in the trash until enough says so, or nothing is left.
	Hurry(ctx context.Context, enough func() bool) error
}

// ErrHeld is why something that was planned to go stays: it has come into use.
var ErrHeld = errors.New("it is in use")

// Config is what a Janitor works with.
type Config struct {
	Stock  Stock
	Limits Limits
	// Interval is how often it sweeps; zero: only when something says so.
	Interval time.Duration
	// WarnSize is how much a volume may have written before it is named; 0: any.
	WarnSize int64
	Log      *logrus.Logger
}

const (
	// pollEvery is how often the free space is looked at between sweeps, where
	// MinFree is set: a statfs of microseconds. A fast disk takes 5 GB in that time.
	pollEvery = 5 * time.Second
	// restShare and restLeast bound what sweeps take of a processor, however often
	// something calls for one.
	restShare = 10
	restLeast = 100 * time.Millisecond
	// hurryMost is how long a sweep, or who needs room, waits for the trash at a time:
	// it is deleted in the background all the same, and what is in it may be stuck.
	hurryMost = time.Minute
	// rounds is how often a sweep plans: discards that have gone make layers free
	// that they stood on, and sizes in records are not quite those on disk.
	rounds = 4
)

// Janitor keeps a Stock within its limits. Its methods may be called concurrently.
type Janitor struct {
	Config
	busy   chan struct{} // held by whoever plans and evicts
	nudges chan struct{}
	events ring
	made   atomic.Int64 // how often MakeRoom has evicted something

	mu     sync.Mutex // never held over I/O
	failed map[string]failure
	watch  watch
	last   Report
}

// New returns a Janitor that does nothing by itself until Run.
func New(c Config) *Janitor {
	return &Janitor{
		Config: c, busy: make(chan struct{}, 1), nudges: make(chan struct{}, 1),
		failed: make(map[string]failure),
	}
}

// Nudge has Run sweep soon: something has grown. It never blocks.
func (j *Janitor) Nudge() {
	select {
	case j.nudges <- struct{}{}:
	default:
	}
}

// Run sweeps until ctx ends: at once, every Interval, after a Nudge, and when less
// than MinFree is free.
func (j *Janitor) Run(ctx context.Context) {
	var scheduled, poll <-chan time.Time
	if j.Interval > 0 {
		t := time.NewTicker(j.Interval)
		defer t.Stop()
		scheduled = t.C
	}
	if j.Limits.MinFree > 0 {
		t := time.NewTicker(pollEvery)
		defer t.Stop()
		poll = t.C
	}
	var calm patience
	for sweep, late := true, true; ; {
		if sweep {
			j.sweepOnce(ctx, late)
		}
		sweep, late = true, false
		select {
		case <-ctx.Done():
			return
		case <-scheduled:
			late = true
		case <-j.nudges:
		case <-poll:
			sweep = j.short(&calm)
		}
	}
}

// sweepOnce sweeps, has the trash deleted without rest while less is free than has
// to be, and rests. What is late goes only where late is set.
func (j *Janitor) sweepOnce(ctx context.Context, late bool) {
	began := time.Now()
	lim := j.Limits
	lim.lateDone = !late
	if _, err := j.sweepFor(ctx, lim); err != nil && ctx.Err() == nil {
		j.Log.WithError(err).Warn("janitor: sweep failed; the next one tries again")
	}
	rest := max(restShare*time.Since(began), restLeast)
	if j.Limits.MinFree > 0 {
		_ = j.hurry(ctx, func() bool { // an error is that of the context
			s, err := j.Stock.Space()
			return err != nil || !j.Limits.Short(s)
		})
	}
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	}
}

// hurry has the trash deleted until enough says so, nothing is left, or hurryMost has
// passed. The error is that of ctx.
func (j *Janitor) hurry(ctx context.Context, enough func() bool) error {
	bounded, cancel := context.WithTimeout(ctx, hurryMost)
	defer cancel()
	if err := j.Stock.Hurry(bounded, enough); err != nil && bounded.Err() == nil {
		return err
	}
	return ctx.Err()
}

// short reports whether a poll should be followed by a sweep.
func (j *Janitor) short(calm *patience) bool {
	s, err := j.Stock.Space()
	if err != nil {
		j.Log.WithError(err).Warn("janitor: look at the free space")
		return false
	}
	return calm.now(j.Limits.Short(s), cmp.Or(j.Interval, time.Hour))
}

// patience doubles the wait between sweeps while they do not help.
type patience struct{ polls, wait int }

// now reports whether this poll is one to act on.
func (p *patience) now(short bool, most time.Duration) bool {
	if !short {
		*p = patience{}
		return false
	}
	if p.polls > 0 {
		p.polls--
		return false
	}
	p.wait = min(max(2*p.wait, 1), int(most/pollEvery))
	p.polls = p.wait
	return true
}

// lock makes the caller the only one who plans and evicts.
func (j *Janitor) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case j.busy <- struct{}{}:
		return func() { <-j.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
