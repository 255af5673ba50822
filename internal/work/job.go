package work

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Owner is who wants a piece of work: a mount, a volume, a request of the operator,
// or a setting.
type Owner struct {
	Name string // such as `the mount of volume "src"`
	// Urgent work has a caller who waits for it, such as a container that starts. It
	// goes before work that nobody waits for.
	Urgent bool
}

// Job is one piece of work. It is safe for concurrent use.
type Job struct {
	Owner   string // who began it
	Subject string // whose slots it takes
	Began   time.Time

	queued atomic.Int32 // slots that it waits for

	mu      sync.Mutex
	callers map[Party]int // who wait for it
}

// Urgent reports whether an urgent caller waits for the job: of a caller that is a job
// itself, whether one waits for that now.
func (j *Job) Urgent() bool { return j.urgentBut(nil) }

// urgentBut is Urgent without what was looked at: a part of a job may wait for a Lock that
// another part of it holds.
func (j *Job) urgentBut(seen []*Job) bool {
	if slices.Contains(seen, j) {
		return false
	}
	j.mu.Lock()
	callers := slices.Collect(maps.Keys(j.callers))
	j.mu.Unlock()
	return slices.ContainsFunc(callers, func(p Party) bool { return p.urgentBut(append(seen, j)) })
}

// Wanted reports whether any caller still waits for the job.
func (j *Job) Wanted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.callers) > 0
}

// Queued reports whether the job waits for its turn. A nil Job does not.
func (j *Job) Queued() bool { return j != nil && j.queued.Load() > 0 }

// join counts a caller until leave is called. A nil Job counts nobody.
func (j *Job) join(p Party) (leave func()) {
	if j == nil {
		return func() {}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
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

// Party is for whom the work of a context is done: an owner, or the job that it is a
// part of. The zero Party is nobody in particular. Parties are equal if their
// contexts come from the same WithOwner or WithJob.
type Party struct {
	owner *Owner
	job   *Job
}

// PartyOf returns for whom the work of a context is done.
func PartyOf(ctx context.Context) Party {
	if o, _ := ctx.Value(ownerKey{}).(*Owner); o != nil {
		return Party{owner: o}
	}
	return Party{job: JobOf(ctx)}
}

// Urgent reports whether somebody waits for the party's work now.
func (p Party) Urgent() bool { return p.urgentBut(nil) }

func (p Party) urgentBut(seen []*Job) bool {
	switch {
	case p.owner != nil:
		return p.owner.Urgent
	case p.job != nil:
		return p.job.urgentBut(seen)
	}
	return false
}

// name is the owner's; of a job, that of who began it.
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

// WithOwner returns a context whose work belongs to o.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, &o)
}

// WithJob returns a context for the work of j.
func WithJob(ctx context.Context, j *Job) context.Context {
	return context.WithValue(context.WithValue(ctx, jobKey{}, j), ownerKey{}, nil)
}

// JobOf returns the job that a context belongs to, or nil.
func JobOf(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}
