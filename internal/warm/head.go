package warm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// headOf returns the head for a path and a ref, without a chain.
func (w Want) headOf(path, ref string) meta.WarmHead {
	// State is carried over only between workspaces that agree in all of these.
	data, err := json.Marshal([]any{path, w.UID, w.GID, ref, w.Text})
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(data)
	return meta.WarmHead{Clone: w.Clone, Key: hex.EncodeToString(sum[:16]), Path: path, UID: w.UID, GID: w.GID, Ref: ref, Text: w.Text}
}

// change is a change of a clone's records.
type change struct {
	layer *meta.Layer     // to publish; nil for none
	temp  string          // the directory of layer
	heads []meta.WarmHead // new or moved
	gone  []meta.WarmHead // to delete
	lost  []meta.Layer    // to delete: their directories are missing or incomplete
}

// commit makes a change, and removes the layers that nothing needs after it. The caller
// holds the clone's lock.
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
	// Under one lock, so that no Select sees a head with a layer that is being removed.
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

// Head is a head with what the janitor needs to know.
type Head struct {
	meta.WarmHead
	// Size is the size of the layers that no other head needs.
	Size disk.Size
	// Held is set while a workspace uses a layer of the head: then evicting the head frees
	// nothing yet.
	Held bool
}

// Heads returns the heads of a clone, the most recently used one first. It does no I/O.
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

// Evict deletes a head and removes its layers unless something else needs them; those that
// a workspace uses are removed when it ends. An unknown head is not an error.
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

// Evicting removes the heads of a clone that nobody uses from memory. It returns a function
// that deletes their records, and one that puts the heads back if the deletion fails.
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
