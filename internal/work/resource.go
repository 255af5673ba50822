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
// It counts who uses it, and an eviction waits until nobody does. The fields do not
// change. It is safe for concurrent use.
type Resource struct {
	Group   *Group // runs the work on it
	Name    string // as errors call it, such as `clone default/0123456789abcdef`; no other has it
	Subject string // whose slots the work takes
	Gone    error  // the error of work that an eviction cancels or does not let begin
	Report  func(error)

	mu       sync.Mutex     // guards what follows; never held over I/O
	users    map[Party]int  // whose uses there are
	tasks    map[*task]bool // of the uses, those that can be cancelled
	unused   chan struct{}  // closed by the end of the last use, if an eviction waits for that
	evicting chan struct{}  // closed when its eviction is over; nil: there is none
}

// task is work on a resource that an eviction can cancel.
type task struct {
	job    *Job
	cancel context.CancelCauseFunc
}

// BusyError says why something can't be evicted now.
type BusyError struct{ Name, Reason string }

func (e *BusyError) Error() string { return fmt.Sprintf("%s is in use: %s", e.Name, e.Reason) }

// Use keeps the resource from being evicted until release is called. It waits while an
// eviction is under way, which is short. Who uses the resource already does not wait,
// because the eviction waits for the end of that: the error is r.Gone. Otherwise it is
// the context's cause.
func (r *Resource) Use(ctx context.Context) (release func(), err error) {
	user := PartyOf(ctx)
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
		select {
		case <-evicting:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// useLocked counts a use until release is called.
func (r *Resource) useLocked(user Party) (release func()) {
	if r.users == nil {
		r.users = make(map[Party]int)
	}
	r.users[user]++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users[user]--; r.users[user] == 0 {
			delete(r.users, user)
		}
		if len(r.users) == 0 && r.unused != nil {
			close(r.unused)
			r.unused = nil
		}
	})
}

// usedByLocked reports whether a party uses the resource. Nobody in particular, the zero
// Party, may be many: it is not known.
func (r *Resource) usedByLocked(user Party) bool { return user != (Party{}) && r.users[user] > 0 }

// Start begins a task, which uses the resource until done is called. Its context ends
// when an eviction cancels it. It does not wait for an eviction, which may wait for
// whoever begins the task: the error is r.Gone.
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
	release := r.useLocked(PartyOf(ctx))
	return ctx, func() {
		r.mu.Lock()
		delete(r.tasks, t)
		r.mu.Unlock()
		release()
		cancel(nil)
	}, nil
}

// ShareOn is Share for work on a resource, of its subject. The key is the resource's own.
func ShareOn[T any](ctx context.Context, r *Resource, key string, f func(ctx context.Context) (T, error)) (T, error) {
	return Share(ctx, r.Group, key+"\x00"+r.Name, r.Report, func(ctx context.Context) (T, error) {
		JobOf(ctx).Subject = r.Subject
		return f(ctx)
	})
}

// ShareTask is ShareOn for a task: it may go on when nobody who has begun it still
// waits, so it uses the resource itself.
func ShareTask[T any](ctx context.Context, r *Resource, key string, f func(ctx context.Context) (T, error)) (T, error) {
	return ShareOn(ctx, r, key, func(ctx context.Context) (T, error) {
		ctx, done, err := r.Start(ctx)
		if err != nil {
			var none T
			return none, err
		}
		defer done()
		return f(ctx)
	})
}

// Usage is how a resource is used.
type Usage struct {
	Used     bool
	Attended bool   // somebody waits for a use of it
	Tasks    bool   // there are some
	Busy     string // says why it can't be evicted; empty if it can
}

// Usage answers from memory.
func (r *Resource) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usageLocked()
}

func (r *Resource) usageLocked() Usage {
	u := Usage{Used: len(r.users) > 0, Tasks: len(r.tasks) > 0}
	for user := range r.users {
		u.Attended = u.Attended || user.Urgent()
	}
	if r.evicting != nil {
		u.Busy = "it is being evicted"
	} else if len(r.users) > 0 {
		u.Busy = r.usesLocked()
	}
	return u
}

// usesLocked says in words who uses the resource.
func (r *Resource) usesLocked() string {
	var list []string
	for t := range r.tasks {
		if t.job != nil {
			list = append(list, fmt.Sprintf("work for %s, since %s", t.job.Owner, t.job.Began.UTC().Format(time.RFC3339)))
		}
	}
	if len(list) == 0 {
		return "a create, a mount or work in the background is not done"
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "; ")
}

// Stop says which work on a resource does not keep it from being evicted.
type Stop int

const (
	StopNothing    Stop = iota // none
	StopUnattended             // work that nobody waits for by then
	StopAll                    // also what a Mount waits for
)

// stopWait is how long an eviction waits for the work that it has cancelled: git has
// five seconds between TERM and KILL.
const stopWait = 15 * time.Second

// Evict returns when nobody uses the resource, and nobody begins to until done is
// called. Tasks that stop names are cancelled, and waited for. The error is a
// *BusyError or the context's cause.
func (r *Resource) Evict(ctx context.Context, stop Stop) (done func(), err error) {
	r.mu.Lock()
	u := r.usageLocked()
	stops := stop == StopAll || stop == StopUnattended && !u.Attended
	if stops && r.evicting == nil {
		u.Busy = ""
	}
	if u.Busy == "" && r.usedByLocked(PartyOf(ctx)) {
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
		return nil, &BusyError{r.Name, "it was told to stop, and is not done: " + r.Usage().Busy}
	}
}
