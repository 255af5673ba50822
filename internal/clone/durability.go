package clone

import (
	"context"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// syncSoon has the layers that were just made synced in the background.
func (m *Manager) syncSoon() {
	select {
	case m.syncs <- struct{}{}:
	default:
	}
}

// syncAfter is how long after they were made layers are synced: the Mount that had
// them made commits some records still, each of which would wait behind the sync.
const syncAfter = time.Second

// syncLayers makes layers durable: one syncfs for all that wait, and then their
// records say so.
func (m *Manager) syncLayers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.syncs:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(syncAfter):
		}
		if len(m.pendingLayers()) == 0 {
			continue
		}
		if err := m.Sync(ctx); err != nil && ctx.Err() == nil {
			m.Log.WithError(err).Warn("sync layers: they are good for this boot only")
		}
		failpoint.Hit("clone/sync/recorded")
	}
}

// syncRounds lets callers share a sync that begins after they have asked.
type syncRounds struct {
	token chan struct{} // held by the one that syncs

	mu          sync.Mutex
	begun, done int // the number of the newest sync, and of the newest that succeeded
}

// Sync writes everything below the root to disk, and has the records of the
// layers that waited for it say so. What was written before the call is on disk
// when it returns. It can take seconds; callers at the same time share one.
func (m *Manager) Sync(ctx context.Context) error {
	r := &m.rounds
	r.mu.Lock()
	asked := r.begun
	r.mu.Unlock()
	select {
	case r.token <- struct{}{}:
		defer func() { <-r.token }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	if r.done > asked { // one that began after we had asked
		r.mu.Unlock()
		return nil
	}
	r.begun++
	round := r.begun
	r.mu.Unlock()
	if err := m.syncNow(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = round
	return nil
}

// pendingLayer is one that is not known to be on disk.
type pendingLayer struct {
	c *Clone
	member
}

// pendingLayers are of this boot: what an earlier one has not synced is not on
// disk, whatever is synced now.
func (m *Manager) pendingLayers() (list []pendingLayer) {
	for _, c := range m.all() {
		c.mu.Lock()
		for _, set := range c.sets() {
			for _, l := range set.members(func(l meta.Layer) bool { return !l.Durable && l.Boot == m.Boot }) {
				list = append(list, pendingLayer{c, l})
			}
		}
		c.mu.Unlock()
	}
	return list
}

func (m *Manager) syncNow() error {
	list := m.pendingLayers()
	if err := durable.SyncFS(m.Root); err != nil {
		return err
	}
	failpoint.Hit("clone/sync/synced")
	if len(list) == 0 {
		return nil
	}
	var now []pendingLayer
	err := m.DB.Update(func(tx *meta.Tx) error {
		now = setDurable(list, true) // here, so that no save that comes next puts back what was
		for _, p := range now {
			if err := p.set.put(tx, p.Layer); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		setDurable(now, false) // no record says so: the next sync tries again
	}
	return err
}

// setDurable notes in memory whether layers are durable. It returns those that are
// still there, as they are now.
func setDurable(list []pendingLayer, durable bool) (there []pendingLayer) {
	for _, p := range list {
		p.c.mu.Lock()
		if l, ok := p.set.known[p.ID]; ok && l.CreatedAt.Equal(p.CreatedAt) {
			l.Durable = durable
			p.set.known[p.ID] = l
			there = append(there, pendingLayer{p.c, member{p.set, l}})
		}
		p.c.mu.Unlock()
	}
	return there
}
