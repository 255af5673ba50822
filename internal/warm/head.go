package warm

import (
	"errors"
	"maps"

	"github.com/helmdeck/repos/internal/meta"
)

// maxChain is how many layers a head may have while it waits to be flattened.
const maxChain = 2 * flattenAt

// change is what happens to a clone's records in one step.
type change struct {
	layer *meta.Layer     // a new one
	temp  string          // what is to be its directory
	heads []meta.WarmHead // moved
	gone  []meta.WarmHead
	lost  []meta.Layer // that are not what they were
}

// commit makes a change, and removes the layers that nothing needs after it. It is
// called with the clone's lock held.
func (m *Manager) commit(clone string, ch change) error {
	layers := m.Set(clone)
	var records []func(*meta.Tx) error
	if len(ch.heads)+len(ch.gone) > 0 {
		records = append(records, func(tx *meta.Tx) error {
			var errs []error
			for _, h := range ch.heads {
				errs = append(errs, tx.PutWarmHead(h))
			}
			for _, h := range ch.gone {
				errs = append(errs, tx.DeleteWarmHead(h))
			}
			return errors.Join(errs...)
		})
	}
	if ch.layer != nil {
		if _, err := layers.Publish(*ch.layer, ch.temp, records...); err != nil {
			return err
		}
		records = nil
	}
	// Together, so that no Take finds a layer on a head that is about to go.
	m.mu.Lock()
	c := m.cloneLocked(clone)
	before := maps.Clone(c.heads)
	for _, h := range ch.heads {
		c.heads[h.Key] = h
	}
	for _, h := range ch.gone {
		delete(c.heads, h.Key)
	}
	void := layers.Withdraw(c.unneeded())
	m.mu.Unlock()
	void = append(void, ch.lost...)
	if err := layers.Forget(void, records...); err != nil {
		if records != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			c.heads = before
		}
		return err
	}
	return layers.Trash(void)
}
