package work

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Owner says for whom work is done: a mount, a volume, a request of the operator, or a
// setting.
type Owner struct {
	Name string // such as `the mount of volume "src"`
	// Urgent work has a waiting caller, such as a container that starts. It runs before
	// other work.
	Urgent bool
	// Yields marks work in advance, which nobody waits for: an eviction always cancels it.
	// Work that another party wants too does not yield.
	Yields bool
	// Ends marks work that is cancelled when its last caller gives up. Work that another
	// party wants too goes on.
	Ends bool
}

// trait is something that work has if all its callers have it, and always had.
type trait int

const (
	yields trait = iota
	ends
	traits
)

func (o *Owner) has(t trait) bool {
	if t == yields {
		return o.Yields
	}
	return o.Ends
}

// Job is one piece of work. It is safe for concurrent use.
type Job struct {
	Owner   string // the name of the Owner that started it
	Subject string // the subject whose slots it takes
	Began   time.Time

	queued atomic.Int32 // the number of slots it waits for

	mu      sync.Mutex
	callers map[Party]int // the number of waiting callers by party
	had     [traits]bool  // whether all its callers until now had a trait
}

// newJob returns a job that a party starts.
func newJob(p Party) *Job {
	return &Job{Owner: p.name(), Began: time.Now(), had: [traits]bool{p.Yields(), p.Ends()}}
}

// Urgent reports whether an urgent caller waits for the job. A caller that is a job is
// urgent if that job is urgent now.
func (j *Job) Urgent() bool { return j.urgentExcept(nil) }

// urgentExcept is Urgent without the jobs in seen. They prevent endless recursion: a part
// of a job may wait for a Lock that another part of the same job holds.
func (j *Job) urgentExcept(seen []*Job) bool {
	if slices.Contains(seen, j) {
		return false
	}
	j.mu.Lock()
	callers := slices.Collect(maps.Keys(j.callers))
	j.mu.Unlock()
	return slices.ContainsFunc(callers, func(p Party) bool { return p.urgentExcept(append(seen, j)) })
}

// has reports whether a job has a trait. The jobs in seen are those of urgentExcept.
func (j *Job) has(t trait, seen []*Job) bool {
	if slices.Contains(seen, j) {
		return true
	}
	j.mu.Lock()
	callers, had := slices.Collect(maps.Keys(j.callers)), j.had[t]
	j.mu.Unlock()
	return had && !slices.ContainsFunc(callers, func(p Party) bool { return !p.has(t, append(seen, j)) })
}

// abandoned reports whether nobody waits for a job that ends then.
func (j *Job) abandoned() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.callers) == 0 && j.had[ends]
}

// Queued reports whether the job waits for a slot. A nil Job does not.
func (j *Job) Queued() bool { return j != nil && j.queued.Load() > 0 }

// join adds a caller, and leave removes it. A nil Job counts no callers.
func (j *Job) join(p Party) (leave func()) {
	if j == nil {
		return func() {}
	}
	has := [traits]bool{p.Yields(), p.Ends()} // before the lock, because it takes those of other jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	for t := range traits {
		j.had[t] = j.had[t] && has[t]
	}
	if j.callers == nil {
		j.callers = make(map[Party]int)
	}
	j.callers[p]++
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.callers[p]--; j.callers[p] == 0 {
			delete(j.callers, p)
		}
	}
}

// Party says for whom the work of a context is done: for an Owner, or as a part of a Job.
// The zero Party is unknown. Parties are equal if their contexts come from the same call
// of WithOwner or WithJob.
type Party struct {
	owner *Owner
	job   *Job
}

// PartyOf returns the party of a context.
func PartyOf(ctx context.Context) Party {
	if o, _ := ctx.Value(ownerKey{}).(*Owner); o != nil {
		return Party{owner: o}
	}
	return Party{job: JobOf(ctx)}
}

// Urgent reports whether an urgent caller waits for the party's work now.
func (p Party) Urgent() bool { return p.urgentExcept(nil) }

func (p Party) urgentExcept(seen []*Job) bool {
	switch {
	case p.owner != nil:
		return p.owner.Urgent
	case p.job != nil:
		return p.job.urgentExcept(seen)
	}
	return false
}

// Yields reports whether the party's work gives way to an eviction: see Owner.
func (p Party) Yields() bool { return p.has(yields, nil) }

// Ends reports whether the party's work ends when nobody waits for it: see Owner.
func (p Party) Ends() bool { return p.has(ends, nil) }

func (p Party) has(t trait, seen []*Job) bool {
	switch {
	case p.owner != nil:
		return p.owner.has(t)
	case p.job != nil:
		return p.job.has(t, seen)
	}
	return false
}

// name returns the name of the owner, or of the owner of the job.
func (p Party) name() string {
	switch {
	case p.owner != nil:
		return p.owner.Name
	case p.job != nil:
		return p.job.Owner
	}
	return "the plugin"
}

type ownerKey struct{}

type jobKey struct{}

// WithOwner returns a context for work that belongs to o.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, &o)
}

// WithJob returns a context for the work of j.
func WithJob(ctx context.Context, j *Job) context.Context {
	return context.WithValue(context.WithValue(ctx, jobKey{}, j), ownerKey{}, nil)
}

// JobOf returns the job of a context, or nil.
func JobOf(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}
