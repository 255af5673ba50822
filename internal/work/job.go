package work

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Owner says for whom work is done: a mount, a volume, a request of the operator, or a
// setting.
type Owner struct {
	Name    string // such as `the mount of volume "src"`
	Subject string // takes the slots of the work, unless that is a Resource's
	// Urgent work has a waiting caller, such as a container that starts. It runs before
	// other work.
	Urgent bool
	// Yields marks work in advance, which nobody waits for: an eviction always cancels it.
	// Work that another owner wants too does not yield.
	Yields bool
	// Ends marks work that is cancelled when its last caller gives up. Work that another
	// owner wants too goes on.
	Ends bool
}

// trait is a set of what a job has if its Owner, or one of its callers, has it.
type trait uint8

const (
	urgent trait = 1 << iota // while the caller waits
	stays                    // it does not yield, also later
	goesOn                   // it does not end, also later
)

// Job is what a context knows of its work. WithOwner makes one, whose traits are those of its
// Owner. Share makes one that has callers, which are jobs: those that wait for the result, and
// those that wait for a Lock that it holds. It is safe for concurrent use. A nil Job is that of
// an unknown owner, whose work is not urgent, does not yield and does not end.
type Job struct {
	Owner   string // the name of the Owner that started it
	Subject string // the subject whose slots it takes
	Began   time.Time
	// GivesWay marks work that no mount waits for. The slots that it gets from then on are overdue from
	// the beginning: others, also of the same subject, wait for them only if too many are overdue.
	GivesWay bool

	queued atomic.Int32 // the number of slots it waits for

	mu      sync.Mutex
	went    time.Time                // when it last went on after it had waited for a slot
	own     trait                    // its Owner's traits; of a shared job, those that callers leave to it
	callers map[*Job]int             // how often each waits; nil if the job is an Owner's
	waits   map[string]time.Duration // see Waited
}

// unknown is what a nil Job stands for.
var unknown = &Job{own: stays | goesOn}

// newShared returns a job that a caller starts, without callers.
func newShared(caller *Job) *Job {
	j := &Job{Owner: "the plugin", Began: time.Now(), callers: make(map[*Job]int)}
	if caller != nil {
		j.Owner, j.Subject = caller.Owner, caller.Subject
	}
	return j
}

// Urgent reports whether an urgent owner waits for the job now.
func (j *Job) Urgent() bool { return j.has(urgent) }

// Yields reports whether the job gives way to an eviction: see Owner.
func (j *Job) Yields() bool { return !j.has(stays) }

// has reports whether the job has a trait, or a caller does, or one of that, and so on. They can
// form circles: a part of a job may wait for a Lock that another part of the same job holds.
func (j *Job) has(t trait) bool {
	seen, next := map[*Job]bool{j: true}, []*Job{j}
	for len(next) > 0 {
		last := len(next) - 1
		j, next = next[last], next[:last]
		if j == nil {
			j = unknown
		}
		j.mu.Lock()
		found := j.own&t != 0
		for c := range j.callers {
			if !seen[c] {
				seen[c], next = true, append(next, c)
			}
		}
		j.mu.Unlock()
		if found {
			return true
		}
	}
	return false
}

// abandoned reports whether nobody waits for a job that ends then.
func (j *Job) abandoned() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.callers) == 0 && j.own&goesOn == 0
}

// Queued reports whether the job waits for a slot. A nil Job does not.
func (j *Job) Queued() bool { return j != nil && j.queued.Load() > 0 }

// queue notes that the job waits for a slot, until proceed.
func (j *Job) queue() { j.queued.Add(1) }

func (j *Job) proceed() {
	j.mu.Lock()
	j.went = time.Now()
	j.mu.Unlock()
	j.queued.Add(-1)
}

// wentOn returns when the job last went on after it had waited for a slot.
func (j *Job) wentOn() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.went
}

// join adds a caller, until leave. The job of an Owner has none.
func (j *Job) join(caller *Job) {
	if j == nil || j.callers == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.callers[caller]++
}

// leave removes a caller that has joined.
func (j *Job) leave(caller *Job) {
	if j == nil || j.callers == nil {
		return
	}
	var left trait // found before the lock, because the caller may wait for j in a circle
	for _, t := range []trait{stays, goesOn} {
		if caller.has(t) {
			left |= t
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.own |= left
	if j.callers[caller]--; j.callers[caller] == 0 {
		delete(j.callers, caller)
	}
}

type jobKey struct{}

// WithOwner returns a context for work that belongs to o. It replaces the job of ctx.
func WithOwner(ctx context.Context, o Owner) context.Context {
	j := &Job{Owner: o.Name, Subject: o.Subject, Began: time.Now()}
	if o.Urgent {
		j.own |= urgent
	}
	if !o.Yields {
		j.own |= stays
	}
	if !o.Ends {
		j.own |= goesOn
	}
	return withJob(ctx, j)
}

func withJob(ctx context.Context, j *Job) context.Context {
	return context.WithValue(ctx, jobKey{}, j)
}

// JobOf returns the job of a context, or nil. Contexts have the same one if they come from the
// same call of WithOwner or Share.
func JobOf(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}
