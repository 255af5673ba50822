package driver

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/phase"
	"github.com/helmdeck/repos/internal/verbs"
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

// observe reports a request that began at a time. w is nil unless it is a Mount.
func (d *Driver) observe(ctx context.Context, op Operation, began time.Time, w *phase.Watch, err error) {
	if d.Observe == nil {
		return
	}
	e := Event{Operation: op, Took: time.Since(began)}
	switch {
	case err == nil || errors.Is(err, errKeepID):
	case errors.Is(context.Cause(ctx), ErrStopping):
		e.Kind = verbs.Canceled
	case errors.As(err, new(deniedError)):
		e.Kind = verbs.Denied
	default:
		e.Kind = verbs.KindOf(err)
	}
	if w != nil {
		e.Phases = w.Took()
	}
	d.Observe(e)
}
