package janitor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
)

// Stock is what a Janitor manages. Its methods, except Space, Trash and Hurry, are called one at a time.
// Evict and Hurry take time, the others do not.
type Stock interface {
	// Inventory returns what exists, with the chosen clones. It waits until the leftovers of
	// an earlier run are known.
	Inventory(ctx context.Context, of Choice) (Inventory, error)
	// Evict removes what e names. The error is ErrHeld if it has come into use. If it is
	// moved to the trash, Inventory must count it there at once, because otherwise the
	// next plan would evict as much again.
	Evict(ctx context.Context, e Eviction) error
	// Space returns the space of the filesystem, by a system call.
	Space() (disk.Space, error)
	// Trash returns the size of the trash, as Inventory does, from memory.
	Trash() disk.Size
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
	// Earlier are the events of earlier processes, oldest first: EventsAfter returns them too, and
	// after them one of the type Started.
	Earlier []Event
	// Recorded is called with each new event, in their order. It must not block, nor call the
	// Janitor. It may be nil.
	Recorded func(Event)
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
	// rounds is how many plans a sweep makes: evicting checkpoints frees their layers for
	// eviction, and recorded sizes are not exact.
	rounds = 4
)

// Janitor keeps a Stock within its limits. Its methods may be called concurrently.
type Janitor struct {
	config Config
	busy   chan struct{} // held while planning and evicting
	nudges chan struct{}
	made   atomic.Int64 // number of MakeRoom calls that evicted something
	all    atomic.Int64 // Plan.All after the last sweep, in bytes

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
	j := &Janitor{
		config: c, busy: make(chan struct{}, 1), nudges: make(chan struct{}, 1),
		failed: make(map[object]failure), recorded: make(chan struct{}),
		seq: time.Now().UnixMicro(), // more than an earlier process can have counted to, unless the clock was put back
	}
	if n := len(c.Earlier); n > 0 {
		j.events = slices.Clone(c.Earlier[max(n-EventsKept, 0):])
		j.seq = max(j.seq, c.Earlier[n-1].Seq)
		j.Note(Event{Type: Started, Text: "the plugin has started"})
	}
	return j
}

// Nudge makes Run sweep soon, because something has grown. It never blocks.
func (j *Janitor) Nudge() {
	select {
	case j.nudges <- struct{}{}:
	default:
	}
}

// Run sweeps until ctx ends: at once, every Interval, after a Nudge, and when less
// than MinFree is free, and when a clone that exceeds a limit on its own has not been used for
// largeGrace. While the disk counts as full, or MaxSize is exceeded, it makes the trash hurry.
func (j *Janitor) Run(ctx context.Context) {
	var scheduled, poll <-chan time.Time
	if j.config.Interval > 0 {
		t := time.NewTicker(j.config.Interval)
		defer t.Stop()
		scheduled = t.C
	}
	if j.config.Limits.MinFree > 0 {
		t := time.NewTicker(pollEvery)
		defer t.Stop()
		poll = t.C
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { j.keepFree(ctx) })
	var wait backoff
	var again <-chan time.Time
	for sweep, late := true, true; ; {
		if sweep {
			again = nil
			if d := j.sweepOnce(ctx, late); d > 0 {
				again = time.After(d)
			}
		}
		sweep, late = true, false
		select {
		case <-ctx.Done():
			return
		case <-scheduled:
			late = true
		case <-j.nudges:
		case <-again:
		case <-poll:
			sweep = j.short(ctx, &wait)
		}
	}
}

// sweepOnce sweeps and rests, and returns Plan.Again. It evicts late parts only if late is set. On
// a full disk the trash goes first: a plan counts only what was measured of it, and it is not
// measured while it hurries.
func (j *Janitor) sweepOnce(ctx context.Context, late bool) (again time.Duration) {
	_ = j.AwaitRoom(ctx) // the error is the context's
	began := time.Now()
	lim := j.config.Limits
	lim.lateDone = !late
	r, err := j.sweepFor(ctx, lim)
	if err != nil && ctx.Err() == nil {
		j.config.Log.WithContext(ctx).WithError(err).Warn("janitor: sweep failed; the next one tries again")
	}
	rest := max(restShare*time.Since(began), restLeast)
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	}
	return r.Left.Again
}

// keepFree makes the trash hurry while the disk counts as full or MaxSize is exceeded, until ctx
// ends. It does so beside the sweeps, which take time and rest after it: others fill the disk
// meanwhile.
func (j *Janitor) keepFree(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		_ = j.hurry(ctx, func() bool { return j.roomy() && !j.tooMuch() }) // the error is the context's
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// tooMuch reports whether the clones of the last sweep and what is in the trash now exceed MaxSize.
func (j *Janitor) tooMuch() bool {
	return j.config.Limits.MaxSize > 0 && j.all.Load()+j.config.Stock.Trash().Bytes > j.config.Limits.MaxSize
}

// hurry makes the trash hurry until enough returns true, nothing is left, or hurryMost
// has passed. The error is that of ctx.
func (j *Janitor) hurry(ctx context.Context, enough func() bool) error {
	bounded, cancel := context.WithTimeout(ctx, hurryMost)
	defer cancel()
	if err := j.config.Stock.Hurry(bounded, enough); err != nil && bounded.Err() == nil {
		return err
	}
	return ctx.Err()
}

// short reports whether a poll should be followed by a sweep.
func (j *Janitor) short(ctx context.Context, wait *backoff) bool {
	s, err := j.config.Stock.Space()
	if err != nil {
		j.config.Log.WithContext(ctx).WithError(err).Warn("janitor: look at the free space")
		return false
	}
	return wait.due(j.config.Limits.Short(s), cmp.Or(j.config.Interval, time.Hour))
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
