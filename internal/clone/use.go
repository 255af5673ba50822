package clone

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// Use keeps the clone from being evicted until release is called. It is for
// whoever is about to look at the clone: a Create, a Mount, work in the
// background. It waits while an eviction is under way, which is short; what it
// then finds may be nothing. The error is the context's cause.
func (c *Clone) Use(ctx context.Context) (release func(), err error) {
	for {
		c.mu.Lock()
		evicting := c.evicting
		if evicting == nil {
			c.uses++
			c.mu.Unlock()
			return sync.OnceFunc(func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.uses--
			}), nil
		}
		c.mu.Unlock()
		select {
		case <-evicting:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Use is Clone.Use of a clone's key, for those who know no more of it.
func (m *Manager) Use(ctx context.Context, key string) (release func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return func() {}, nil // nothing to be evicted
	}
	return c.Use(ctx)
}

// shareUsing is share for work on the clone's directory: it may go on when nobody
// who has begun it still waits, so it uses the clone itself.
func shareUsing[T any](ctx context.Context, c *Clone, key string, f func(ctx context.Context) (T, error)) (T, error) {
	return share(ctx, c.m, key, func(ctx context.Context) (T, error) {
		release, err := c.Use(ctx)
		if err != nil {
			var none T
			return none, err
		}
		defer release()
		return f(ctx)
	})
}

// BusyError says why something of a clone can't be evicted now.
type BusyError struct{ Clone, Reason string }

func (e *BusyError) Error() string { return fmt.Sprintf("clone %s is in use: %s", e.Clone, e.Reason) }

// busyLocked says why the clone can't be evicted now; empty when it can.
func (c *Clone) busyLocked() string {
	switch {
	case c.evicting != nil:
		return "it is being evicted"
	case c.heldLocked():
		return "workspaces or discards stand on it"
	case c.uses > 0:
		return "a create, a mount or work in the background is not done"
	}
	return ""
}

// usedEvery is how coarse the times of use are: recency is a matter of days.
const usedEvery = time.Minute

// Touch notes that the clone is used now, as at the end of a workspace, which may
// have lasted for weeks.
func (c *Clone) Touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touchLocked(meta.Layer{}, meta.Layer{})
}

// touchLocked notes that a workspace is about to stand on the layers. The records
// are written in the background.
func (c *Clone) touchLocked(tree, gitLayer meta.Layer) {
	now, stale := c.m.Now(), false
	old := func(used time.Time) bool { return now.Sub(used) >= usedEvery || now.Before(used) } // the clock may have been wrong
	if c.rec != nil && old(c.rec.Used) {
		c.rec.Used, stale = now, true
	}
	var list []member
	touch := func(set *layerSet, id string) {
		if l, ok := set.known[id]; ok && old(l.Used) {
			l.Used = now
			set.known[id] = l
			list = append(list, member{set, l})
		}
	}
	for _, id := range tree.Chain {
		touch(c.trees, id)
	}
	touch(c.gitLayers, gitLayer.ID)
	if !stale && len(list) == 0 {
		return
	}
	c.m.Background(func(ctx context.Context) {
		if err := c.save(list...); err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).WithField("clone", c.key).Warn("note when the clone was used")
		}
	})
}
