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

func (m *Manager) syncNow() error {
	type pending struct {
		c     *Clone
		known map[string]meta.Layer
		put   func(*meta.Tx, meta.Layer) error
		layer meta.Layer
	}
	var list []pending
	for _, c := range m.all() {
		c.mu.Lock()
		for _, l := range c.trees {
			if !l.Durable {
				list = append(list, pending{c, c.trees, (*meta.Tx).PutTree, l})
			}
		}
		for _, l := range c.gitLayers {
			if !l.Durable {
				list = append(list, pending{c, c.gitLayers, (*meta.Tx).PutGitLayer, l})
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
			_, there := p.known[p.layer.ID]
			p.layer.Durable = true
			if there {
				p.known[p.layer.ID] = p.layer
			}
			p.c.mu.Unlock()
			if !there {
				continue
			}
			if err := p.put(tx, p.layer); err != nil {
				return err
			}
		}
		return nil
	})
}
