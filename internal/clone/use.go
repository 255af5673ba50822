package clone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
)

// Use keeps the clone from being evicted until release is called. It is for
// whoever is about to look at the clone: a Create, a Mount, work in the
// background. It waits while an eviction is under way, which is short; what it
// then finds may be nothing. Who uses the clone already does not wait, because the
// eviction waits for its end: the error says that the clone was evicted. Otherwise
// it is the context's cause.
func (c *Clone) Use(ctx context.Context) (release func(), err error) {
	user := work.PartyOf(ctx)
	for {
		c.mu.Lock()
		evicting, again := c.evicting, c.users[user] > 0
		if evicting == nil {
			defer c.mu.Unlock()
			return c.useLocked(user), nil
		}
		c.mu.Unlock()
		if again {
			return nil, errEvicted
		}
		select {
		case <-evicting:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// useLocked counts a use until release is called. Nobody in particular, the zero
// Party, may be many.
func (c *Clone) useLocked(user work.Party) (release func()) {
	count := func(n int) {
		c.uses += n
		if user == (work.Party{}) {
			return
		}
		if c.users[user] += n; c.users[user] == 0 {
			delete(c.users, user)
		}
	}
	count(1)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		count(-1)
		if c.uses == 0 && c.unused != nil {
			close(c.unused)
			c.unused = nil
		}
	})
}

// attendedLocked reports whether somebody waits for a use of the clone.
func (c *Clone) attendedLocked() bool {
	for user := range c.users {
		if user.Urgent() {
			return true
		}
	}
	return false
}

// Use is Clone.Use of a clone's key, for those who know no more of it.
func (m *Manager) Use(ctx context.Context, key string) (release func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return func() {}, nil // nothing to be evicted
	}
	return c.Use(ctx)
}

// share runs f once for all who ask for the same key at the same time. It
// returns when f has, or when ctx ends; f goes on regardless, as work of the clone's
// subject.
func share[T any](ctx context.Context, c *Clone, key string, f func(ctx context.Context) (T, error)) (T, error) {
	report := func(err error) { c.m.Log.WithField("clone", c.key).Error(err) }
	return work.Share(ctx, c.m.Work, key, report, func(ctx context.Context) (T, error) {
		work.JobOf(ctx).Subject = string(c.subject)
		return f(ctx)
	})
}

// shareUsing is share for a task of the clone: it may go on when nobody who has
// begun it still waits, so it uses the clone itself.
func shareUsing[T any](ctx context.Context, c *Clone, key string, f func(ctx context.Context) (T, error)) (T, error) {
	return share(ctx, c, key, func(ctx context.Context) (T, error) {
		ctx, done, err := c.start(ctx)
		if err != nil {
			var none T
			return none, err
		}
		defer done()
		return f(ctx)
	})
}

// task is work on a clone that an eviction can cancel.
type task struct {
	job    *work.Job
	cancel context.CancelCauseFunc
}

// errEvicted is why a task was cancelled, or not begun.
var errEvicted = errors.New("the clone was evicted meanwhile: run it again")

// start begins a task, which uses the clone until done is called. It does not wait
// for an eviction: that may be waiting for whoever begins the task.
func (c *Clone) start(ctx context.Context) (_ context.Context, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicting != nil {
		return ctx, nil, errEvicted
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &task{work.JobOf(ctx), cancel}
	c.tasks[t] = true
	release := c.useLocked(work.PartyOf(ctx))
	return ctx, func() {
		c.mu.Lock()
		delete(c.tasks, t)
		c.mu.Unlock()
		release()
		cancel(nil)
	}, nil
}

// Heavy is for heavy work in the background on the clone of a key: a task, which waits
// for its turn, and whose context ends when the task is cancelled or out of time. Call
// done at its end.
func (m *Manager) Heavy(ctx context.Context, key, op string) (_ context.Context, done func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return ctx, nil, errEvicted
	}
	ctx = work.WithJob(ctx, &work.Job{Owner: "the plugin", Subject: string(c.subject), Began: time.Now()})
	ctx, end, err := c.start(ctx)
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

// BusyError says why something of a clone can't be evicted now.
type BusyError struct{ Clone, Reason string }

func (e *BusyError) Error() string { return fmt.Sprintf("clone %s is in use: %s", e.Clone, e.Reason) }

// busyLocked says why the clone can't be evicted now; empty when it can.
func (c *Clone) busyLocked() string {
	switch {
	case c.evicting != nil:
		return "it is being evicted"
	case c.held():
		return "workspaces or discards stand on it"
	case c.uses > 0:
		return c.usesLocked()
	}
	return ""
}

// usesLocked says in words who uses the clone.
func (c *Clone) usesLocked() string {
	var list []string
	for t := range c.tasks {
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
	list := append(c.layers.Touch(now, old, meta.Tree, tree.Chain...), c.layers.Touch(now, old, meta.GitLayer, gitLayer.ID)...)
	if !stale && len(list) == 0 {
		return
	}
	c.m.Background(func(ctx context.Context) {
		if err := c.save(list...); err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).WithField("clone", c.key).Warn("note when the clone was used")
		}
	})
}
