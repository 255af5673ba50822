package work

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Resource is something that work is done on and that can be evicted, such as a clone.
// It counts its users, and an eviction waits until it has none. Do not change the fields.
// It is safe for concurrent use.
type Resource struct {
	Group   *Group      // runs the work on it
	Name    string      // unique, for errors, such as `clone default/0123456789abcdef`
	Subject string      // the subject whose slots the work takes
	Gone    error       // the error of work that an eviction cancels or prevents
	Report  func(error) // gets panics

	mu       sync.Mutex     // guards what follows; never held over I/O
	users    map[*Job]int   // the number of uses by job; nil if there are none
	tasks    map[*task]bool // the uses that can be cancelled; likewise
	unused   chan struct{}  // closed when the last use ends; nil unless an eviction waits
	evicting chan struct{}  // closed when the eviction ends; nil without an eviction
}

// task is work on a resource that an eviction can cancel.
type task struct {
	job    *Job // may be nil
	cancel context.CancelCauseFunc
}

// BusyError says why something can't be evicted now.
type BusyError struct{ Name, Reason string }

func (e *BusyError) Error() string { return fmt.Sprintf("%s is in use: %s", e.Name, e.Reason) }

// Use prevents an eviction until release is called. It waits for the end of a running
// eviction, which is short. A job that uses the resource already does not wait, because
// the eviction waits for it: the error is r.Gone. Other errors are the context's cause.
func (r *Resource) Use(ctx context.Context) (release func(), err error) {
	user := JobOf(ctx)
	for {
		r.mu.Lock()
		evicting, again := r.evicting, r.usedByLocked(user)
		if evicting == nil {
			defer r.mu.Unlock()
			return r.useLocked(user), nil
		}
		r.mu.Unlock()
		if again {
			return nil, r.Gone
		}
		since := time.Now()
		select {
		case <-evicting:
			Waited(ctx, anEviction, since)
		case <-ctx.Done():
			Waited(ctx, anEviction, since)
			return nil, context.Cause(ctx)
		}
	}
}

// useLocked adds a use, and release removes it.
func (r *Resource) useLocked(user *Job) (release func()) {
	if r.users == nil {
		r.users = make(map[*Job]int)
	}
	r.users[user]++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users[user]--; r.users[user] == 0 {
			delete(r.users, user)
		}
		if len(r.users) > 0 {
			return
		}
		r.users = nil // most resources are idle, and an empty map keeps its memory
		if r.unused != nil {
			close(r.unused)
			r.unused = nil
		}
	})
}

// usedByLocked reports whether a job uses the resource. It is false for nil, which may stand
// for several.
func (r *Resource) usedByLocked(user *Job) bool { return user != nil && r.users[user] > 0 }

// Start starts a task, which uses the resource until done is called. Its context ends when
// an eviction cancels the task. During an eviction the error is r.Gone: Start cannot wait,
// because the eviction may wait for its caller.
func (r *Resource) Start(ctx context.Context) (_ context.Context, done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.evicting != nil {
		return ctx, nil, r.Gone
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &task{JobOf(ctx), cancel}
	if r.tasks == nil {
		r.tasks = make(map[*task]bool)
	}
	r.tasks[t] = true
	release := r.useLocked(t.job)
	return ctx, func() {
		r.mu.Lock()
		if delete(r.tasks, t); len(r.tasks) == 0 {
			r.tasks = nil
		}
		r.mu.Unlock()
		release()
		cancel(nil)
	}, nil
}

// ShareOn is Share for work on a resource. The key need only be unique for the resource.
func ShareOn[T any](ctx context.Context, r *Resource, key string, f func(ctx context.Context) (T, error)) (T, error) {
	return Share(ctx, r.Group, key+"\x00"+r.Name, r.Report, func(ctx context.Context) (T, error) {
		JobOf(ctx).Subject = r.Subject
		return f(ctx)
	})
}

// ShareTask is ShareOn for a task, which uses the resource itself because it may continue
// after its callers have given up.
func ShareTask[T any](ctx context.Context, r *Resource, key string, f func(ctx context.Context) (T, error)) (T, error) {
	return Share(ctx, r.Group, key+"\x00"+r.Name, r.Report, func(ctx context.Context) (T, error) {
		JobOf(ctx).Subject = r.Subject
		ctx, done, err := r.Start(ctx)
		if err != nil {
			var none T
			return none, err
		}
		defer done()
		return f(ctx)
	})
}

// Usage says how a resource is used.
type Usage struct {
	Used     bool   // by work that does not yield
	Attended bool   // an urgent caller waits for a use
	Yields   bool   // it has users, and all of them yield
	Busy     string // why it can't be evicted; empty if it can
}

// Usage returns how the resource is used now.
func (r *Resource) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usageLocked()
}

func (r *Resource) usageLocked() Usage {
	var u Usage
	tasked := make(map[*Job]bool)
	for t := range r.tasks {
		tasked[t.job] = true
	}
	for user := range r.users {
		u.Attended = u.Attended || user.Urgent()
		u.Used = u.Used || !user.Yields() || !tasked[user] // without a task it can't be cancelled
	}
	u.Yields = len(r.users) > 0 && !u.Used
	var jobs []string
	for t := range r.tasks {
		if t.job != nil && !t.job.Yields() {
			jobs = append(jobs, fmt.Sprintf("work for %s, since %s", t.job.Owner, t.job.Began.UTC().Format(time.RFC3339)))
		}
	}
	slices.Sort(jobs)
	switch {
	case r.evicting != nil:
		u.Busy = "it is being evicted"
	case len(jobs) > 0:
		u.Busy = strings.Join(slices.Compact(jobs), "; ")
	case u.Used:
		u.Busy = "a create, a mount or work in the background is not done"
	}
	return u
}

// Stop says which tasks an eviction cancels.
type Stop int

const (
	StopNothing    Stop = iota // only those that yield: any other use prevents the eviction
	StopUnattended             // all, unless an urgent caller waits for a use
	StopAll                    // all, also if a Mount waits
)

// stopWait is how long an eviction waits for tasks that it has cancelled. git gets five
// seconds between TERM and KILL.
const stopWait = 15 * time.Second

// Evict returns when the resource has no users. No use starts until done is called. Evict
// cancels the tasks that stop names and those that yield, and waits for their end. The
// error is a *BusyError or the context's cause.
func (r *Resource) Evict(ctx context.Context, stop Stop) (done func(), err error) {
	r.mu.Lock()
	u := r.usageLocked()
	stops := stop == StopAll || stop == StopUnattended && !u.Attended
	if stops && r.evicting == nil {
		u.Busy = ""
	}
	if u.Busy == "" && r.usedByLocked(JobOf(ctx)) {
		u.Busy = "it is the one that needs room"
	}
	if u.Busy != "" {
		r.mu.Unlock()
		return nil, &BusyError{r.Name, u.Busy}
	}
	evicting, unused := make(chan struct{}), make(chan struct{})
	r.evicting, r.unused = evicting, unused
	if len(r.users) == 0 {
		close(unused)
		r.unused = nil
	}
	for t := range r.tasks {
		t.cancel(r.Gone)
	}
	r.mu.Unlock()
	done = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.evicting, r.unused = nil, nil
		close(evicting)
	}
	select {
	case <-unused:
		return done, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	case <-time.After(stopWait):
		done()
		return nil, &BusyError{r.Name, "it was told to stop but still runs: " + r.Usage().Busy}
	}
}
