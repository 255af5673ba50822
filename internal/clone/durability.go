package clone

import (
	"context"
	"sync"

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

// syncLayers makes layers durable: one syncfs for all that wait, and then their
// records say so.
func (m *Manager) syncLayers() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.syncs:
		}
		if len(m.pendingLayers()) == 0 {
			continue
		}
		if err := m.Sync(m.ctx); err != nil && m.ctx.Err() == nil {
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
	return m.DB.Update(func(tx *meta.Tx) error {
		for _, p := range list {
			p.c.mu.Lock()
			l, there := p.set.known[p.ID]
			if there = there && l.CreatedAt.Equal(p.CreatedAt); there {
				l.Durable = true
				p.set.known[p.ID] = l
			}
			p.c.mu.Unlock()
			if !there {
				continue
			}
			if err := p.set.put(tx, l); err != nil {
				return err
			}
		}
		return nil
	})
}
