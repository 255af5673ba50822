package prebuild

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/api"
)

// The states of a Report.
const (
	Ready  = "ready"  // containers find the state of the job
	Failed = "failed" // containers find what they found before
	Old    = "old"    // a command runs; until it has succeeded, containers find what they found before
)

// Report says what has become of a job.
type Report struct {
	Time   time.Time `json:"time"`
	Job    Job       `json:"-"`
	State  string    `json:"state"` // ready, failed or old
	Result           // of a failed job, as far as it is known
	// Error says why it failed, and Why, why a command runs.
	Error string `json:"error,omitempty"`
	Why   string `json:"why,omitempty"`
	// Good is the commit for which the job was ready last. It is empty if this process has not seen that.
	Good string `json:"good,omitempty"`
	Err  error  `json:"-"`
	// Again is set if the job was ready the last time too, and nothing was done.
	Again bool `json:"-"`
}

// Batch runs jobs, each one at most once at a time.
type Batch struct {
	Jobs []Job
	// Run runs a job, and calls begin before each command, which does not run if that is an error. It may be called
	// concurrently.
	Run func(ctx context.Context, j Job, begin func(r Result, why string) error) (Result, error)
	// Parallel is how many jobs run at the same time, at least 1.
	Parallel int
	// Report is told what becomes of the jobs, one call after the other.
	Report func(Report)
	// Interval is how long Watch waits before it looks at a job again.
	Interval time.Duration
	// Pushes calls f with each record since a time that somebody told of a change of a repository, until ctx ends or it
	// fails. It calls connected before, when it has reached the plugin. Nil means nobody tells.
	Pushes func(ctx context.Context, since time.Time, connected func(), f func(api.AuditRecord)) error

	mu     sync.Mutex     // held while Report is called
	clones map[int]string // of the last results, by job
	makers map[string]int // the jobs that have or make a state, by clone and head
	turn   chan struct{}
}

// maxBackoff bounds the wait after failures, unless the interval is longer.
const maxBackoff = time.Hour

// Once runs each job, and returns how many failed, and the error of the first of these in the list.
func (b *Batch) Once(ctx context.Context) (failed int, first error) {
	errs := make([]error, len(b.Jobs))
	b.each(func(i int) { _, errs[i] = b.one(ctx, i, "", false) })
	for _, err := range errs {
		if err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	return failed, first
}

// Watch keeps the jobs ready until ctx ends: it runs each job at once, after each interval, and after a push. After
// failures it waits twice as long each time, until a push. It returns when all containers are gone.
func (b *Batch) Watch(ctx context.Context) {
	wake := make([]chan struct{}, len(b.Jobs))
	for i := range wake {
		wake[i] = make(chan struct{}, 1) // a push while the job runs counts
	}
	var pushes sync.WaitGroup
	if b.Pushes != nil {
		pushes.Go(func() { b.follow(ctx, wake) })
	}
	b.each(func(i int) {
		good, failures := "", 0
		for ctx.Err() == nil {
			now, err := b.one(ctx, i, good, failures > 0)
			if good = now; err == nil {
				failures = 0
			} else {
				failures++
			}
			select {
			case <-ctx.Done():
			case <-wake[i]:
			case <-time.After(b.pause(failures)):
			}
		}
	})
	pushes.Wait()
}

// The waits before follow asks for pushes again are from shortest, doubled each time, to longest.
const (
	shortest = time.Second
	longest  = time.Minute
)

// follow wakes the jobs of repositories that have changed, and all jobs when the plugin is back, because it may not have
// heard of a push meanwhile.
func (b *Batch) follow(ctx context.Context, wake []chan struct{}) {
	push := func(i int) {
		select {
		case wake[i] <- struct{}{}:
		default:
		}
	}
	since, wait, again := time.Now(), shortest, false
	for ctx.Err() == nil {
		connected := func() {
			for i := range wake {
				if again {
					push(i)
				}
			}
			wait = shortest
		}
		_ = b.Pushes(ctx, since, connected, func(r api.AuditRecord) { // the plugin restarts: the interval is enough until it is back
			since = r.Time.Add(1)
			for i := range wake {
				if b.isOf(i, r) {
					push(i)
				}
			}
		})
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait, again = min(2*wait, longest), true
	}
}

// isOf reports whether a record is about the repository of a job: by its clone, as far as it is known, because URLs that
// differ may name one, or by the URL, because a refresh of all subjects names only clones that were mounted lately.
func (b *Batch) isOf(i int, r api.AuditRecord) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.Clone != "" && r.Clone == b.clones[i] || plain(b.Jobs[i].Repo) == plain(r.Repo)
}

// plain returns a URL without what makes no other repository of it.
func plain(url string) string { return strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git") }

// pause returns how long to wait after a number of failures in a row, with up to a tenth more or less, so that many jobs
// do not ask at the same time.
func (b *Batch) pause(failures int) time.Duration {
	d := b.Interval
	for range failures {
		if d *= 2; d >= maxBackoff {
			d = max(maxBackoff, b.Interval)
			break
		}
	}
	return d - d/10 + rand.N(d/5+1)
}

// each calls f with the index of each job, concurrently, and returns when all calls have.
func (b *Batch) each(f func(i int)) {
	b.turn = make(chan struct{}, b.Parallel)
	var all sync.WaitGroup
	for i := range b.Jobs {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// one runs a job when it has its turn, and reports that, unless ctx has ended. good is the commit for which it was ready
// last, and so is the result. failed says whether it failed since.
func (b *Batch) one(ctx context.Context, i int, good string, failed bool) (string, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return good, context.Cause(ctx)
	}
	j := b.Jobs[i]
	r, err := b.Run(ctx, j, func(r Result, why string) error {
		if err := b.claim(i, r); err != nil {
			return err
		}
		b.report(Report{Job: j, State: Old, Result: r, Why: why, Good: good})
		return nil
	})
	if r.Clone != "" {
		b.mu.Lock()
		if b.clones == nil {
			b.clones = make(map[int]string)
		}
		b.clones[i] = r.Clone
		b.mu.Unlock()
	}
	switch {
	case ctx.Err() != nil:
		return good, context.Cause(ctx)
	case err != nil:
		r.Repo = j.Repo // it may have failed before it had a result
		b.report(Report{Job: j, State: Failed, Result: r, Err: err, Error: err.Error(), Good: good})
		return good, err
	}
	_ = b.claim(i, r) // what is ready is good for all
	b.report(Report{Job: j, State: Ready, Result: r, Good: r.Commit, Again: r.Did == Nothing && r.Commit == good && !failed})
	return r.Commit, nil
}

// claim notes that a job has or makes the states of a result, and no others. It is an error if another job has or makes
// one, because they would replace it in turn: options that differ may mean the same, such as no ref and the default branch.
func (b *Batch) claim(i int, r Result) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.makers, func(_ string, of int) bool { return of == i })
	key := func(s api.WarmState) string { return r.Clone + "\x00" + s.Head }
	for _, s := range r.States {
		if other, ok := b.makers[key(s)]; ok && other != i {
			return fmt.Errorf("the state of %s is that of another job too, %s: they would replace it in turn. Remove one of them", s.Path, b.Jobs[other].key())
		}
	}
	if b.makers == nil {
		b.makers = make(map[string]int)
	}
	for _, s := range r.States {
		b.makers[key(s)] = i
	}
	return nil
}

func (b *Batch) report(r Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Time = time.Now()
	b.Report(r)
}
