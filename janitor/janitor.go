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

// Stock is what a Janitor manages. Its methods, except Space and Hurry, are called one at a time.
// Evict and Hurry take time, the others do not.
type Stock interface {
	// Inventory returns what exists. It waits until the leftovers of an earlier run are
	// known.
	Inventory(ctx context.Context) (Inventory, error)
	// Evict removes what e names. The error is ErrHeld if it has come into use. If it is
	// moved to the trash, Inventory must count it there at once, because otherwise the
	// next plan would evict as much again.
	Evict(ctx context.Context, e Eviction) error
	// Space returns the space of the filesystem, by a system call.
	Space() (disk.Space, error)
	// Hurry deletes the trash until enough returns true or nothing is left.
	Hurry(ctx context.Context, enough func() bool) error
}

// ErrHeld means that something can't be evicted because it has come into use.
var ErrHeld = errors.New("it is in use")

// Config configures New.
type Config struct {
	Stock  Stock
	Limits Limits
	// Interval is how often Run sweeps; zero: only at the start, after a Nudge, and when
	// the disk is full.
	Interval time.Duration
	// WarnSize is how many bytes a volume may write before a warning; 0: any.
	WarnSize int64
	Log      *logrus.Logger
	// Evicted is called after each eviction, with the context of the sweep or request that
	// it was made for. It must not block. It may be nil.
	Evicted func(ctx context.Context, e Eviction)
}

const (
	// pollEvery is how often Run checks the free space, also between sweeps if MinFree is
	// set: a statfs of microseconds. A fast disk can receive 1 GB in that time.
	pollEvery = time.Second
	// restShare and restLeast bound the processor time of sweeps, however many Nudges
	// there are.
	restShare = 10
	restLeast = 100 * time.Millisecond
	// hurryMost is how long a call waits for the trash at most: some of it may be impossible
	// to delete.
	hurryMost = time.Minute
	// rounds is how many plans a sweep makes: evicting discards frees their layers for
	// eviction, and recorded sizes are not exact.
	rounds = 4
)

// Janitor keeps a Stock within its limits. Its methods may be called concurrently.
type Janitor struct {
	Config
	busy   chan struct{} // held while planning and evicting
	nudges chan struct{}
	made   atomic.Int64 // number of MakeRoom calls that evicted something

	mu     sync.Mutex // never held over I/O
	failed map[object]failure
	watch  watch
	last   Report
	sweeps int64   // successful ones
	fails  int64   // failed ones
	events []Event // the last ones
	seq    int64   // of the last one
	// recorded is closed with the next event.
	recorded chan struct{}
	counts   []Count // of all events; few, so searched linearly
}

// New returns a Janitor. It does nothing on its own before Run.
func New(c Config) *Janitor {
	return &Janitor{
		Config: c, busy: make(chan struct{}, 1), nudges: make(chan struct{}, 1),
		failed: make(map[object]failure), recorded: make(chan struct{}),
		seq: time.Now().UnixMicro(), // more than an earlier process can have counted to
	}
}

// Nudge makes Run sweep soon, because something has grown. It never blocks.
func (j *Janitor) Nudge() {
	select {
	case j.nudges <- struct{}{}:
	default:
	}
}

// Run sweeps until ctx ends: at once, every Interval, after a Nudge, and when less
// than MinFree is free. While the disk counts as full it makes the trash hurry.
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
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { j.keepFree(ctx) })
	var wait backoff
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
			sweep = j.short(ctx, &wait)
		}
	}
}

// sweepOnce sweeps and rests. It evicts late parts only if late is set. On a full disk the
// trash goes first: a plan counts only what was measured of it, and it is not measured while
// it hurries.
func (j *Janitor) sweepOnce(ctx context.Context, late bool) {
	_ = j.AwaitRoom(ctx) // the error is the context's
	began := time.Now()
	lim := j.Limits
	lim.lateDone = !late
	if _, err := j.sweepFor(ctx, lim); err != nil && ctx.Err() == nil {
		j.Log.WithContext(ctx).WithError(err).Warn("janitor: sweep failed; the next one tries again")
	}
	rest := max(restShare*time.Since(began), restLeast)
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	}
}

// keepFree makes the trash hurry while the disk counts as full, until ctx ends. It does so
// beside the sweeps, which take time and rest after it: others fill the disk meanwhile.
func (j *Janitor) keepFree(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		_ = j.AwaitRoom(ctx) // the error is the context's
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// hurry makes the trash hurry until enough returns true, nothing is left, or hurryMost
// has passed. The error is that of ctx.
func (j *Janitor) hurry(ctx context.Context, enough func() bool) error {
	bounded, cancel := context.WithTimeout(ctx, hurryMost)
	defer cancel()
	if err := j.Stock.Hurry(bounded, enough); err != nil && bounded.Err() == nil {
		return err
	}
	return ctx.Err()
}

// short reports whether a poll should be followed by a sweep.
func (j *Janitor) short(ctx context.Context, wait *backoff) bool {
	s, err := j.Stock.Space()
	if err != nil {
		j.Log.WithContext(ctx).WithError(err).Warn("janitor: look at the free space")
		return false
	}
	return wait.due(j.Limits.Short(s), cmp.Or(j.Interval, time.Hour))
}

// backoff doubles the wait between sweeps while they do not help.
type backoff struct{ polls, wait int }

// due reports whether to sweep after this poll.
func (p *backoff) due(short bool, most time.Duration) bool {
	if !short {
		*p = backoff{}
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

// lock waits for the right to plan and evict.
func (j *Janitor) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case j.busy <- struct{}{}:
		return func() { <-j.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
