package clone

import (
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
		if err := m.syncNow(); err != nil {
			m.Log.WithError(err).Warn("sync layers: they are good for this boot only")
		}
		failpoint.Hit("clone/sync/recorded")
	}
}

// syncNow is about the layers of this boot: what an earlier one has not synced is
// not on disk, whatever is synced now.
func (m *Manager) syncNow() error {
	type pending struct {
		c *Clone
		member
	}
	var list []pending
	for _, c := range m.all() {
		c.mu.Lock()
		for _, set := range c.sets() {
			for _, l := range set.members(func(l meta.Layer) bool { return !l.Durable && l.Boot == m.Boot }) {
				list = append(list, pending{c, l})
			}
		}
		c.mu.Unlock()
	}
	if len(list) == 0 {
		return nil
	}
	if err := durable.SyncFS(m.Root); err != nil {
		return err
	}
	failpoint.Hit("clone/sync/synced")
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
