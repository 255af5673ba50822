package ready

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/keylock"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// Clone is a clone that was fetched. *clone.Clone implements it.
type Clone interface {
	// Recent returns what was mounted in the last day, from memory.
	Recent() []meta.Recent
	// Ready does the slow part of a later Mount. See clone.Clone.
	Ready(ctx context.Context, s clone.Spec) (meta.Resolution, error)
}

// Target is a Clone with its names.
type Target struct {
	Clone
	Key, Subject string
	// Resolution returns the last known resolution of a ref, from memory.
	Resolution func(clone.Spec) (meta.Resolution, bool)
	// Asked returns the number of questions to the remote that were begun until now, and
	// Answered when it answered last.
	Asked    func() int64
	Answered func() time.Time
}

// Targets returns a function that lists the clones of m.
func Targets(m *clone.Manager) func() []Target {
	return func() []Target {
		var list []Target
		for _, c := range m.Fetched() {
			list = append(list, Target{
				Clone: c, Key: c.Key, Subject: string(c.Subject),
				Resolution: c.Resolution, Asked: c.Asked, Answered: c.Answered,
			})
		}
		return list
	}
}

// Warmable is a clone that may not exist yet. *clone.Clone implements it.
type Warmable interface {
	// Warm makes the clone if necessary, and does the slow part of a later Mount. See
	// clone.Clone.
	Warm(ctx context.Context, s clone.Spec, f func(*clone.Checkout) error) (meta.Resolution, error)
	// Asked returns the number of questions to the remote that were begun until now.
	Asked() int64
	// Doing returns the newest work on it, and Size its size as far as it was measured, from
	// memory.
	Doing() remote.Now
	Size() disk.Size
}

// Clones returns a function that returns the clone of a volume, for Config.Clone.
func Clones(m *clone.Manager) func(volume.Options) Warmable {
	return func(o volume.Options) Warmable { return m.Get(o.Subject, o.Repo) }
}

// Config configures a Keeper.
type Config struct {
	Targets func() []Target
	// Clone returns the clone of a volume with these options.
	Clone func(o volume.Options) Warmable
	// States returns what a Mount of a volume with these options finds at its warm paths, given its checkout.
	States  func(ctx context.Context, o volume.Options, co *clone.Checkout) ([]warm.State, error)
	Work    *work.Group
	Schemes volume.Schemes // those that the settings allow
	// Defaults are those of the options that a WarmRequest does not set.
	Defaults map[string]string
	// Interval is how often Run refreshes what was mounted; zero: never.
	Interval time.Duration
	Now      func() time.Time
	Log      *logrus.Logger
}

const (
	// pollShare is how often Run looks for clones to refresh, as a share of Interval, and
	// pollMost the longest wait.
	pollShare = 10
	pollMost  = time.Minute
	// longest bounds the wait after failures: a remote that has recovered is found within
	// about an hour, unless Interval is longer.
	longest = time.Hour
	// jitter is the share by which a wait differs at random, so that clones that were
	// mounted together do not ask together for ever.
	jitter = 0.1
)

// turns limits how many checkouts are refreshed at a time. A refresh takes some ten
// milliseconds and an answer of the remote, unless there is something to fetch. One that
// takes longer than a minute gives way to another, because remotes can be slow without end.
// A single subject, as most installations have, may take all turns; others come first.
var turns = work.Limits{Slots: 4, PerSubject: 16, Overdue: 12, Quantum: time.Minute}

// Keeper refreshes clones. It is safe for concurrent use.
type Keeper struct {
	config Config
	rounds *work.Scheduler // turns for Run
	calls  *work.Scheduler // turns for Refresh, which does not wait for a round
	warms  *work.Scheduler // turns for Warm
	random func() float64  // from 0 to 1

	calling keylock.Locks[string] // held by the call for a clone and refs that runs

	mu     sync.Mutex       // never held over I/O
	called int              // the number of calls that were made: their IDs
	next   map[string]int   // the call for a clone and refs that has not begun
	plans  map[string]*plan // by the key of the clone, or also by the options of a checkout
}

// plan says when something is refreshed.
type plan struct {
	due      time.Time
	failures int // in a row
	// unanswered is when the last of them ended, if the remote had not answered: an answer
	// since then ends the backoff. Zero if something else failed, such as the fetch.
	unanswered time.Time
	running    bool
}

// New returns a Keeper. It does nothing on its own before Run.
func New(c Config) *Keeper {
	limits := [3]work.Limits{work.Fetch: turns}
	return &Keeper{
		config: c, rounds: work.NewScheduler(limits), calls: work.NewScheduler(limits), warms: work.NewScheduler(limits), random: rand.Float64, next: make(map[string]int), plans: make(map[string]*plan),
	}
}

// Run refreshes what was mounted in the last day every Interval, until ctx ends. What was
// mounted only with refresh=never stays as it is.
func (k *Keeper) Run(ctx context.Context) {
	if k.config.Interval <= 0 {
		return
	}
	poll := time.NewTicker(min(k.config.Interval/pollShare, pollMost))
	defer poll.Stop()
	for {
		k.begin()
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
	}
}

// begin starts a refresh, in the background, of each clone that is due. It is called often, so it
// parses no options: of 10,000 clones only few are due.
func (k *Keeper) begin() {
	now, there := k.config.Now(), make(map[string]bool)
	for _, t := range k.config.Targets() {
		list := slices.DeleteFunc(t.Recent(), isNever)
		if len(list) == 0 {
			continue
		}
		there[t.Key] = true
		if k.take(t, now, list[0].At) {
			k.config.Work.Go(func(ctx context.Context) {
				defer k.release(t.Key)
				if due := k.due(t, list, now); len(due) > 0 {
					k.refresh(ctx, k.rounds, t, due, 0)
				}
			})
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, p := range k.plans {
		name, _, _ := strings.Cut(key, "\x00")
		// The plan of a checkout that is not mounted any more stays as it is.
		if !p.running && (!there[name] || k.isVoid(p, now)) {
			delete(k.plans, key)
		}
	}
}

// isNever reports whether a checkout was mounted with refresh=never.
func isNever(m meta.Recent) bool { return m.Options.Is("refresh", "never") }

// due returns those checkouts of a clone that do not wait after failures of their own.
func (k *Keeper) due(t Target, mounted []meta.Recent, now time.Time) []recent {
	list := k.recents(t, mounted, nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(list, func(c recent) bool {
		p, ok := k.plans[c.key]
		return ok && !k.isDue(p, now)
	})
}

// isDue reports whether a plan is due.
func (k *Keeper) isDue(p *plan, now time.Time) bool { return !now.Before(p.due) || k.isVoid(p, now) }

// isVoid reports whether a plan is so far from now that the clock was wrong, or that nobody follows
// the plan.
func (k *Keeper) isVoid(p *plan, now time.Time) bool {
	return p.due.Sub(now).Abs() > 2*max(longest, k.config.Interval)
}

// take reports whether the caller is to refresh a clone that was mounted last at mounted.
// release ends that. The first time is an Interval after the Mount, which has asked, or at
// a random moment of the next Interval, so that after a start not all clones ask at once. If
// the remote did not answer, it is an Interval after a Mount that it has answered.
func (k *Keeper) take(t Target, now, mounted time.Time) bool {
	answered := t.Answered()
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.plans[t.Key]
	if ok && !p.unanswered.IsZero() && answered.After(p.unanswered) {
		p.failures, p.unanswered, p.due = 0, time.Time{}, answered.Add(k.wait(0))
	}
	if !ok {
		p = &plan{due: mounted.Add(k.wait(0))}
		if !p.due.After(now) {
			p.due = now.Add(time.Duration(k.random() * float64(k.config.Interval)))
		}
		k.plans[t.Key] = p
	}
	if p.running || !k.isDue(p, now) {
		return false
	}
	p.running = true
	return true
}

func (k *Keeper) release(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.plans[key]; ok {
		p.running = false
	}
}

// note records the result of a refresh of a clone or a checkout: after failures in a row
// the next one is later. A success forgets them. answered tells whether the remote has
// answered meanwhile.
func (k *Keeper) note(key string, failed, answered bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.plans[key]
	if !ok {
		p = &plan{}
		k.plans[key] = p
	}
	now := k.config.Now()
	p.failures++
	p.unanswered = time.Time{}
	switch {
	case !failed:
		p.failures = 0
	case !answered:
		p.unanswered = now
	}
	p.due = now.Add(k.wait(p.failures))
}

// fails reports whether the last refresh of a clone or a checkout has failed.
func (k *Keeper) fails(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.plans[key]
	return ok && p.failures > 0
}

// forget removes the plan of a checkout: it is refreshed whenever its clone is.
func (k *Keeper) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.plans, key)
}

// wait returns how long to wait after so many failures.
func (k *Keeper) wait(failures int) time.Duration {
	d, most := k.config.Interval, max(longest, k.config.Interval)
	for range failures {
		if d = min(2*d, most); d == most {
			break
		}
	}
	return time.Duration(float64(d) * (1 + jitter*(2*k.random()-1)))
}

// recent is a checkout of a Target.
type recent struct {
	key     string // of its plan
	ref     string
	options volume.Options
	err     error // the options can't be used
}

// recents returns those checkouts that were mounted of a Target whose ref is one of refs; nil
// means all.
func (k *Keeper) recents(t Target, mounted []meta.Recent, refs []string) (list []recent) {
	for _, r := range mounted {
		options := r.Options.Map()
		c := recent{key: t.Key + "\x00" + string(r.Options), ref: options["ref"]}
		c.options, c.err = volume.Parse(options, nil, k.config.Schemes)
		if refs == nil || namesOneOf(t, c, refs) {
			list = append(list, c)
		}
	}
	return list
}
