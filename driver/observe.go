package driver

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work/phase"
)

// Operation is a request of the engine that Config.Observe is told of.
type Operation string

const (
	OpCreate  Operation = "create"
	OpMount   Operation = "mount"
	OpUnmount Operation = "unmount"
	OpRemove  Operation = "remove"
)

// Event says how a request of the engine ended.
type Event struct {
	Operation Operation
	Kind      verbs.Kind // empty for success
	Took      time.Duration
	// Phases are those that a Mount has begun.
	Phases map[phase.Phase]time.Duration
}

// errPanicked stands for the error of a request that panics. The handler answers it.
var errPanicked = errors.New("internal error")

// observed calls f for a request, and reports how the request ended.
func (d *Driver) observed(ctx context.Context, op Operation, f func(ctx context.Context) error) error {
	if d.config.Observe == nil {
		return f(ctx)
	}
	began, err := time.Now(), errPanicked
	var w *phase.Watch
	if op == OpMount {
		ctx, w = phase.With(ctx)
	}
	defer func() {
		e := Event{Operation: op, Kind: kindOf(ctx, err), Took: time.Since(began)}
		if w != nil {
			e.Phases = w.Took()
		}
		d.config.Observe(e)
	}()
	err = f(ctx)
	return err
}

// kindOf returns the kind of a request's error; empty for success.
func kindOf(ctx context.Context, err error) verbs.Kind {
	switch {
	case err == nil || errors.Is(err, errKeepID):
		return ""
	case errors.Is(context.Cause(ctx), ErrStopping):
		return verbs.Canceled
	case errors.As(err, new(deniedError)):
		return verbs.Denied
	}
	return verbs.KindOf(err)
}
