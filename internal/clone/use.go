package clone

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
)

// Use keeps the clone from being evicted until release is called. It is for whoever is
// about to look at the clone: a Create, a Mount. It waits while an eviction is under
// way; what it then finds may be nothing.
func (c *Clone) Use(ctx context.Context) (release func(), err error) { return c.used.Use(ctx) }

// Use is Clone.Use of a clone's key, for those who know no more of it.
func (m *Manager) Use(ctx context.Context, key string) (release func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return func() {}, nil // nothing to be evicted
	}
	return c.Use(ctx)
}

// errEvicted is why a task was cancelled, or not begun.
var errEvicted = errors.New("the clone was evicted meanwhile: run it again")

// Heavy is for heavy work in the background on the clone of a key: a task, which waits
// for its turn, and whose context ends when the task is cancelled or out of time. Call
// done at its end.
func (m *Manager) Heavy(ctx context.Context, key, op string) (_ context.Context, done func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return ctx, nil, errEvicted
	}
	ctx = work.WithJob(ctx, &work.Job{Owner: "the plugin", Subject: string(c.Subject), Began: time.Now()})
	ctx, end, err := c.used.Start(ctx)
	if err != nil {
		return ctx, nil, err
	}
	ctx, release, err := m.Git.Schedule(ctx, op)
	if err != nil {
		end()
		return ctx, nil, err
	}
	return ctx, func() { release(); end() }, nil
}

// busy says why the clone can't be evicted now; empty when it can.
func (c *Clone) busy(u work.Usage) string {
	if c.Trees.Held() {
		return "workspaces or discards stand on it"
	}
	return u.Busy
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
	if c.Remote.Fetched() && old(c.rec.Used) {
		c.rec.Used, stale = now, true
	}
	list := append(c.layers.Touch(now, old, meta.Tree, tree.Chain...), c.layers.Touch(now, old, meta.GitLayer, gitLayer.ID)...)
	if !stale && len(list) == 0 {
		return
	}
	c.m.Background(func(ctx context.Context) {
		if err := c.save(list...); err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).WithField("clone", c.Key).Warn("note when the clone was used")
		}
	})
}
