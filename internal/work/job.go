package work

import (
	"context"
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

	urgent  atomic.Int32 // urgent callers who wait for it
	callers atomic.Int32 // all callers who wait for it
	queued  atomic.Int32 // slots that it waits for
}

// Urgent reports whether an urgent caller waits for the job.
func (j *Job) Urgent() bool { return j.urgent.Load() > 0 }

// Wanted reports whether any caller still waits for the job.
func (j *Job) Wanted() bool { return j.callers.Load() > 0 }

// Queued reports whether the job waits for its turn.
func (j *Job) Queued() bool { return j.queued.Load() > 0 }

// join counts a caller until leave is called.
func (j *Job) join(urgent bool) (leave func()) {
	j.callers.Add(1)
	if urgent {
		j.urgent.Add(1)
	}
	return func() {
		j.callers.Add(-1)
		if urgent {
			j.urgent.Add(-1)
		}
	}
}

type ownerKey struct{}

type jobKey struct{}

// WithOwner returns a context whose work belongs to o.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// ownerOf returns who the work of a context belongs to. Work that is begun by a job
// belongs to that job's owner, and is as urgent as that job is now.
func ownerOf(ctx context.Context) Owner {
	if o, ok := ctx.Value(ownerKey{}).(Owner); ok {
		return o
	}
	if j := JobOf(ctx); j != nil {
		return Owner{Name: j.Owner, Urgent: j.Urgent()}
	}
	return Owner{Name: "the plugin"}
}

// Attended reports whether somebody waits for the work of a context.
func Attended(ctx context.Context) bool { return ownerOf(ctx).Urgent }

// WithJob returns a context for the work of j.
func WithJob(ctx context.Context, j *Job) context.Context {
	return context.WithValue(context.WithValue(ctx, jobKey{}, j), ownerKey{}, nil)
}

// JobOf returns the job that a context belongs to, or nil.
func JobOf(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}
