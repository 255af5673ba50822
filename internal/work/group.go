package work

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// ErrClosed is the error of work that is begun when the Group is closed.
var ErrClosed = errors.New("the plugin is stopping: run it again")

// Group runs work in the background. The zero value is not usable. It is safe for
// concurrent use.
type Group struct {
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	flights map[string]*flight
}

// flight is work whose result is shared.
type flight struct {
	job  *Job
	done chan struct{} // closed when value and err are set
	// Set before done is closed.
	value any
	err   error
}

// NewGroup returns a Group that runs.
func NewGroup() *Group {
	g := &Group{flights: make(map[string]*flight)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// Close ends all work and waits for it. None begins after it.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.running.Wait()
}

// enter counts work until g.running.Done, unless the Group is closed: the count must
// not rise while Close waits for it to fall.
func (g *Group) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enterLocked()
}

func (g *Group) enterLocked() bool {
	if g.closed {
		return false
	}
	g.running.Add(1)
	return true
}

// Go runs f with a context that ends when the Group is closed, and not at all after
// that. The work of that context belongs to the plugin, unless f says otherwise.
func (g *Group) Go(f func(ctx context.Context)) {
	if !g.enter() {
		return
	}
	go func() {
		defer g.running.Done()
		f(WithOwner(g.ctx, Owner{Name: "the plugin"}))
	}()
}

// Share runs f once for all who ask for the same key at the same time. It returns
// when f has, or when ctx ends, with its cause; f goes on regardless, with a context
// that carries its Job and ends when the Group is closed. The work belongs to the
// party of the first caller's context, and is urgent while an urgent caller waits.
// A panic in f is the error of all callers, and is given to report.
func Share[T any](ctx context.Context, g *Group, key string, report func(error), f func(ctx context.Context) (T, error)) (T, error) {
	var none T
	fl, leave, err := g.fly(key, PartyOf(ctx), func(ctx context.Context) (v any, err error) {
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
	defer leave()
	select {
	case <-fl.done:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	if fl.err != nil {
		return none, fl.err
	}
	return fl.value.(T), nil
}

// fly joins the flight of a key that is under way, or begins one, until leave is
// called.
func (g *Group) fly(key string, caller Party, f func(ctx context.Context) (any, error)) (_ *flight, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fl, ok := g.flights[key]; ok {
		return fl, fl.job.join(caller), nil
	}
	if !g.enterLocked() {
		return nil, nil, ErrClosed
	}
	fl := &flight{job: &Job{Owner: caller.name(), Began: time.Now()}, done: make(chan struct{})}
	g.flights[key] = fl
	leave = fl.job.join(caller) // before the work asks how urgent it is
	go func() {
		defer g.running.Done()
		fl.value, fl.err = f(WithJob(g.ctx, fl.job))
		g.mu.Lock()
		delete(g.flights, key)
		g.mu.Unlock()
		close(fl.done)
	}()
	return fl, leave, nil
}
