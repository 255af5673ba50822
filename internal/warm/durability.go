package warm

import (
	"context"
	"errors"
	"slices"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// syncSoon has new layers written to disk in the background.
func (m *Manager) syncSoon() {
	m.Background(func(ctx context.Context) {
		if err := m.settle(ctx, func(meta.WarmLayer) bool { return true }); err != nil && ctx.Err() == nil {
			m.Log.WithError(err).Warn("sync warm layers: they are good for this boot only")
		}
	})
}

// Settle returns when the layers that a workspace stands on are on disk, and their
// records say so.
func (m *Manager) Settle(ctx context.Context, clone string, paths []meta.WarmPath) error {
	return m.settle(ctx, func(l meta.WarmLayer) bool {
		return l.Clone == clone && slices.ContainsFunc(paths, func(p meta.WarmPath) bool { return slices.Contains(p.Chain, l.ID) })
	})
}

// settle has all layers of this boot synced that wait for it, if one of them is
// wanted.
func (m *Manager) settle(ctx context.Context, wanted func(meta.WarmLayer) bool) error {
	var list []meta.WarmLayer
	needed := false
	m.mu.Lock()
	for _, c := range m.clones {
		for _, l := range c.layers {
			if l.Durable || l.Boot != m.Boot {
				continue // what an earlier boot has not synced is not on disk, whatever is synced now
			}
			list = append(list, l)
			needed = needed || wanted(l)
		}
	}
	m.mu.Unlock()
	if !needed {
		return nil
	}
	if err := m.Sync(ctx); err != nil {
		return err
	}
	failpoint.Hit("warm/sync/synced")
	var now []meta.WarmLayer
	err := m.DB.Update(func(tx *meta.Tx) error {
		now = m.setDurable(list, true)
		var errs []error
		for _, l := range now {
			errs = append(errs, tx.PutWarmLayer(l))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		m.setDurable(now, false) // no record says so: the next one tries again
	}
	return err
}

// setDurable notes in memory whether layers are durable. It returns those that are
// still there, as they are now.
func (m *Manager) setDurable(list []meta.WarmLayer, durable bool) (there []meta.WarmLayer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range list {
		layers := m.cloneLocked(l.Clone).layers
		if now, ok := layers[l.ID]; ok && now.CreatedAt.Equal(l.CreatedAt) {
			now.Durable = durable
			layers[l.ID] = now
			there = append(there, now)
		}
	}
	return there
}
