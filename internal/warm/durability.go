package warm

import (
	"context"
	"errors"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// syncSoon has new layers written to disk in the background, and their records say
// so: one sync for all that wait.
func (m *Manager) syncSoon() {
	m.Background(func(ctx context.Context) {
		if err := m.sync(); err != nil && ctx.Err() == nil {
			m.Log.WithError(err).Warn("sync warm layers: they are good for this boot only")
		}
	})
}

func (m *Manager) sync() error {
	m.syncing.Lock()
	defer m.syncing.Unlock()
	var list []meta.WarmLayer
	m.mu.Lock()
	for _, c := range m.clones {
		for _, l := range c.layers {
			if !l.Durable {
				list = append(list, l)
			}
		}
	}
	m.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	if err := durable.SyncFS(m.Root); err != nil {
		return err
	}
	failpoint.Hit("warm/sync/synced")
	return m.DB.Update(func(tx *meta.Tx) error {
		var errs []error
		for _, l := range list {
			l.Durable = true
			m.mu.Lock()
			c := m.cloneLocked(l.Clone)
			_, there := c.layers[l.ID]
			if there {
				c.layers[l.ID] = l
			}
			m.mu.Unlock()
			if there {
				errs = append(errs, tx.PutWarmLayer(l))
			}
		}
		return errors.Join(errs...)
	})
}
