package warm

import (
	"errors"
	"maps"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// maxChain is how many layers a head may have while it waits to be flattened.
const maxChain = 2 * flattenAt

// change is what happens to a clone's records in one step.
type change struct {
	layer *meta.WarmLayer // a new one, whose directory is there
	heads []meta.WarmHead // moved
	gone  []string        // keys of heads that go
	lost  []string        // IDs of layers that are not what they were
}

// commit makes a change, and removes the layers that nothing needs after it. It is
// called with the clone's lock held.
func (m *Manager) commit(clone string, ch change) error {
	m.mu.Lock()
	c := m.cloneLocked(clone)
	layers, heads := maps.Clone(c.layers), maps.Clone(c.heads)
	if ch.layer != nil {
		c.layers[ch.layer.ID] = *ch.layer
	}
	for _, h := range ch.heads {
		c.heads[h.Key] = h
	}
	var gone []meta.WarmHead
	for _, key := range ch.gone {
		if h, ok := c.heads[key]; ok {
			gone = append(gone, h)
			delete(c.heads, key)
		}
	}
	void := c.takeUnneeded()
	for _, id := range ch.lost {
		if l, ok := c.layers[id]; ok {
			void = append(void, l)
			delete(c.layers, id)
		}
	}
	m.mu.Unlock()

	if ch.layer != nil || len(ch.heads)+len(gone)+len(void) > 0 {
		if err := m.DB.Update(func(tx *meta.Tx) error {
			var errs []error
			if ch.layer != nil {
				errs = append(errs, tx.PutWarmLayer(*ch.layer))
			}
			for _, h := range ch.heads {
				errs = append(errs, tx.PutWarmHead(h))
			}
			for _, h := range gone {
				errs = append(errs, tx.DeleteWarmHead(h))
			}
			for _, l := range void {
				errs = append(errs, tx.DeleteWarmLayer(l))
			}
			return errors.Join(errs...)
		}); err != nil {
			m.mu.Lock()
			c.layers, c.heads = layers, heads
			m.mu.Unlock()
			return err
		}
		failpoint.Hit("warm/commit/recorded")
	}
	return m.trashStrays(clone, void)
}

// takeUnneeded takes the layers that no head and no workspace needs out of memory.
func (c *clone) takeUnneeded() []meta.WarmLayer {
	var list []meta.WarmLayer
	for id, l := range c.layers {
		if c.users[id] == 0 && !c.onHeads(id) {
			list = append(list, l)
			delete(c.layers, id)
		}
	}
	return list
}
