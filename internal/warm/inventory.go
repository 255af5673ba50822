package warm

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// Head is a head as the janitor sees it.
type Head struct {
	meta.WarmHead
	// Size is that of the layers which no other head needs.
	Size disk.Size
	// Held is set while a workspace stands on one of these: to evict the head then
	// frees nothing yet.
	Held bool
}

// Heads returns the heads of a clone, the one that was used last first. It answers
// from memory.
func (m *Manager) Heads(clone string) []Head {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cloneLocked(clone)
	needed := make(map[string]int)
	for _, h := range c.heads {
		for _, id := range h.Chain {
			needed[id]++
		}
	}
	var list []Head
	for _, rec := range c.heads {
		h := Head{WarmHead: rec}
		h.Chain = slices.Clone(rec.Chain)
		for _, id := range rec.Chain {
			if needed[id] == 1 {
				h.Size = h.Size.Add(c.layers.SizeOf(meta.WarmLayer, id))
			}
			h.Held = h.Held || c.layers.Held(meta.WarmLayer, id)
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b Head) int {
		return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// Size returns what all warm layers of a clone take, from memory.
func (m *Manager) Size(clone string) (sum disk.Size) {
	for _, l := range m.Set(clone).List(meta.WarmLayer) {
		sum = sum.Add(l.Size.Size)
	}
	return sum
}

// ChainSize returns what some layers of a clone take, from memory.
func (m *Manager) ChainSize(clone string, chain []string) disk.Size {
	return m.Set(clone).SizeOf(meta.WarmLayer, chain...)
}

// Evict forgets a head, and removes its layers as far as nothing else needs them;
// those that a workspace holds go when it does. One that is not there is no error.
func (m *Manager) Evict(ctx context.Context, clone, key string) error {
	unlock, err := m.lock(ctx, clone)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	h, ok := m.cloneLocked(clone).heads[key]
	m.mu.Unlock()
	if !ok {
		return nil
	}
	return m.commit(clone, change{gone: []meta.WarmHead{h}})
}

// Evicting takes the heads of a clone out of memory, while nobody uses it. It returns
// what deletes their records, and what undoes the first if that fails.
func (m *Manager) Evicting(clone string) (del func(*meta.Tx) error, undo func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cloneLocked(clone)
	delete(m.clones, clone)
	del = func(tx *meta.Tx) error {
		var errs []error
		for _, h := range c.heads {
			errs = append(errs, tx.DeleteWarmHead(h))
		}
		return errors.Join(errs...)
	}
	return del, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.clones[clone] = c
	}
}
