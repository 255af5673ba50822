package clone

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/work"
)

// deepenings limits how many full histories are fetched at a time. They take hours if the
// remote is slow, so those of a subject leave it half of its slots for fetches, which
// Mounts wait for: see work.DefaultLimits.
var deepenings = work.Limits{Slots: 8, PerSubject: 2, Overdue: 24, Quantum: time.Minute}

// deepenSoon does in the background what Ready does for s, so that its next Mount has the
// full history. It is called after a shallow Mount, which it would slow down. If the
// plugin stops, the next shallow Mount begins it again, and if it fails, one after a while.
func (c *Clone) deepenSoon(ctx context.Context, s Spec) {
	if !c.deepening.CompareAndSwap(false, true) {
		return
	}
	if !c.mayDeepen() {
		c.deepening.Store(false)
		return
	}
	c.m.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		defer c.deepening.Store(false)
		ctx = work.WithOwner(ctx, work.Owner{Name: "the full history after a shallow mount", Subject: string(c.Subject), Yields: true})
		err := c.deepen(ctx, s)
		if ctx.Err() != nil || errors.Is(err, ErrEvicted) {
			return
		}
		failures := c.noteDeepened(err != nil)
		if err == nil {
			return
		}
		level := logrus.WarnLevel
		if failures > 1 {
			level = logrus.DebugLevel
		}
		c.m.config.Log.WithContext(ctx).WithError(err).WithField("clone", c.Key).
			Log(level, "fetch the full history: a later mount tries again")
	}))
}

// backoff says when something that has failed is tried again.
type backoff struct {
	failures int // in a row
	due      time.Time
}

// deepenLeast is the wait after a failed fetch of the full history. It doubles with each
// failure up to deepenMost.
const deepenLeast, deepenMost = time.Minute, time.Hour

// mayDeepen reports whether the wait after failures is over. A wait that is too long,
// because the clock was wrong, counts as over.
func (c *Clone) mayDeepen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := c.deepened.due.Sub(c.m.config.Now())
	return wait <= 0 || wait > deepenMost
}

// noteDeepened records the end of a fetch of the full history, and returns the number of
// failures in a row.
func (c *Clone) noteDeepened(failed bool) (failures int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !failed {
		c.deepened = backoff{}
		return 0
	}
	wait := min(deepenLeast<<min(c.deepened.failures, 6), deepenMost)
	c.deepened = backoff{failures: c.deepened.failures + 1, due: c.m.config.Now().Add(wait)}
	return c.deepened.failures
}

func (c *Clone) deepen(ctx context.Context, s Spec) error {
	slot, err := c.m.deepenings.Acquire(ctx, work.Fetch, false)
	if err != nil {
		return err
	}
	defer slot.Release()
	_, err = c.Ready(ctx, s)
	return err
}
