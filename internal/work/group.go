package work

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/origin"
)

// ErrClosed is the error of work that is started after the Group was closed.
var ErrClosed = errors.New("the plugin is stopping: run it again")

// Group runs work in the background. NewGroup makes one. It is safe for concurrent use.
type Group struct {
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool // running must not rise while Close waits for it
	flights map[string]*flight
}

// flight is work with a shared result.
type flight struct {
	job    *Job
	done   chan struct{} // closed after value and err are set
	value  any
	err    error
	cancel context.CancelCauseFunc // ends the work
	// Group.mu guards what follows, until done is closed: the work was cancelled because
	// nobody waited for it, or has ended.
	abandoned, ended bool
}

// abandonedError is the cause of the end of work that nobody waits for any more. It is a context.Canceled: the end says nothing
// of what the work was about.
type abandonedError struct{}

func (abandonedError) Error() string { return "nobody waits for it any more" }

func (abandonedError) Is(target error) bool { return target == context.Canceled }

// NewGroup returns a Group.
func NewGroup() *Group {
	g := &Group{flights: make(map[string]*flight)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// Close cancels all work and waits for it. No work starts afterwards.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.running.Wait()
}

// Go runs f, unless the Group is closed, with a context that ends when it is closed. The
// work belongs to the plugin, unless f gives the context another owner.
func (g *Group) Go(f func(ctx context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(func() { f(WithOwner(g.ctx, Owner{Name: "the plugin"})) })
	}
}

// Shared returns the number of pieces of work that Share runs now.
func (g *Group) Shared() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.flights)
}

// Share runs f once for all callers that give the same key at the same time. It returns
// the result of f, or the cause of ctx if ctx ends first: f then continues, unless the
// owners of all its callers say that it Ends. The context of f carries its Job, which is that
// of the first caller's owner, and ends when the Group is closed. It is urgent while an
// urgent caller waits. If f panics, all callers get an error, and report gets it with the
// stack.
func Share[T any](ctx context.Context, g *Group, key string, report func(error), f func(ctx context.Context) (T, error)) (T, error) {
	var none T
	for {
		since := time.Now()
		fl, began, err := g.join(ctx, key, func(ctx context.Context) (v any, err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("internal error: %v", r)
					report(fmt.Errorf("panic in %q: %v\n%s", key, r, debug.Stack()))
				}
			}()
			return f(ctx)
		})
		if err != nil {
			return none, err
		}
		gaveUp := false
		select {
		case <-fl.done:
		case <-ctx.Done():
			gaveUp = true
		}
		g.leave(ctx, fl)
		fl.sharedWait(ctx, began, since)
		switch {
		case gaveUp:
			return none, context.Cause(ctx)
		case fl.abandoned: // just before this caller came: start it again
		case fl.err != nil:
			return none, fl.err
		default:
			return fl.value.(T), nil
		}
	}
}

// join makes the job of ctx a caller of the flight of a key, which it begins if there is none.
func (g *Group) join(ctx context.Context, key string, f func(ctx context.Context) (any, error)) (_ *flight, began bool, err error) {
	caller := JobOf(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if fl, ok := g.flights[key]; ok {
		fl.job.join(caller)
		return fl, false, nil
	}
	if g.closed {
		return nil, false, ErrClosed
	}
	fl := &flight{job: newShared(caller), done: make(chan struct{})}
	fl.job.join(caller) // before the work can ask how urgent it is
	running, cancel := context.WithCancelCause(g.ctx)
	fl.cancel = cancel
	g.flights[key] = fl
	g.running.Go(func() {
		defer cancel(nil)
		fl.value, fl.err = f(withJob(origin.Carry(running, ctx), fl.job))
		g.mu.Lock()
		delete(g.flights, key)
		fl.ended = true
		g.mu.Unlock()
		close(fl.done)
	})
	return fl, true, nil
}

// leave removes the job of ctx from the callers of a flight. An abandoned flight stays in the
// map until its work has ended, so that no other begins beside it.
func (g *Group) leave(ctx context.Context, fl *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fl.job.leave(JobOf(ctx)); !fl.ended && fl.job.abandoned() {
		fl.abandoned = true
		fl.cancel(abandonedError{})
	}
}
