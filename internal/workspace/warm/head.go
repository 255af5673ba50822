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
	"strings"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// headOf returns the head for a path and a ref, without a chain. Its key ends with the sum of w.Files, after a dash.
func (w Want) headOf(path, ref string) meta.WarmHead {
	// State is carried over only between workspaces that agree in all of these.
	data, err := json.Marshal([]any{path, w.UID, w.GID, ref, w.Text})
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(data)
	key := hex.EncodeToString(sum[:16])
	if w.sum != "" {
		key += "-" + w.sum
	}
	return meta.WarmHead{Clone: w.Clone, Key: key, Path: path, UID: w.UID, GID: w.GID, Ref: ref, Text: w.Text}
}

// group returns what heads have in common that differ in the files alone. It is the key of none.
func group(key string) string {
	key, _, _ = strings.Cut(key, "-")
	return key + "-"
}

// keys returns the keys of the heads with the state of w.Files: that of the ref, and that of the default branch.
func (w Want) keys(path string) []string {
	list := []string{w.headOf(path, w.Ref).Key}
	if w.Default != "" && w.Default != w.Ref {
		list = append(list, w.headOf(path, w.Default).Key)
	}
	return list
}

// find returns the head that a workspace begins with: one with the state of w.Files or, unless w.Exact is set, the newest
// with that of others.
func (c *clone) find(w Want, keys []string) (h meta.WarmHead, ok bool) {
	for _, key := range keys {
		if h, ok := c.heads[key]; ok {
			return h, true
		}
	}
	if w.sum == "" || w.Exact {
		return h, false
	}
	for _, key := range keys {
		for _, other := range c.heads {
			if group(other.Key) == group(key) && (!ok || other.BuiltAt.After(h.BuiltAt)) {
				h, ok = other, true
			}
		}
		if ok {
			break
		}
	}
	return h, ok
}

// Found says which state a workspace found at a warm path. It is zero if there was none.
type Found struct {
	meta.Built
	Exact bool // it is that of the workspace's own key
	// Why says which state it is, unless Exact is set.
	Why  string
	Size disk.Size
}

// Found describes the state that a workspace found at a warm path, from memory.
func (m *Manager) Found(clone string, p meta.WarmPath) (f Found) {
	if p.BuiltAt.IsZero() {
		return f
	}
	f = Found{Built: p.Built, Exact: p.From == "", Size: m.ChainSize(clone, p.Chain)}
	_, files, _ := strings.Cut(p.Head, "-")
	_, has, _ := strings.Cut(p.From, "-")
	switch {
	case f.Exact:
	case files == has:
		f.Why = "it is that of the default branch: the ref has none"
	case group(p.Head) == group(p.From):
		f.Why = "it is the newest of the ref: there is none of the same warm_files"
	default:
		f.Why = "it is the newest of the default branch: the ref has none, and there is none of the same warm_files"
	}
	return f
}

// change is a change of a clone's records.
type change struct {
	made  []layer.Built   // to publish
	heads []meta.WarmHead // new or moved
	gone  []meta.WarmHead // to delete
	lost  []meta.Layer    // to delete: their directories are missing or incomplete
}

// commit makes a change, and removes the layers that nothing needs after it. The caller
// holds the clone's lock.
func (m *Manager) commit(clone string, ch change) error {
	layers := m.config.Layers.Set(clone)
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
	if len(ch.made) > 0 {
		if err := layers.PublishAll(ch.made, records...); err != nil {
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
	// Size is the size of the layers that no other head needs, and of those of times for this one alone.
	Size disk.Size
	// Held is set while a workspace uses a layer of the head: then evicting the head frees
	// nothing yet.
	Held bool
}

// Heads returns the heads of a clone that are no caches, the most recently used one first. It does no I/O.
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
	times := make(map[string]disk.Size) // of layers of times, by the layer that they were made for
	for _, l := range c.layers.List(meta.WarmLayer) {
		if len(l.Fits) == 1 {
			times[l.Fits[0]] = times[l.Fits[0]].Add(l.Size.Size)
		}
	}
	var list []Head
	for _, rec := range c.heads {
		if rec.Path == cache.Mount {
			continue
		}
		h := Head{WarmHead: rec}
		h.Chain = slices.Clone(rec.Chain)
		for _, id := range rec.Chain {
			if needed[id] == 1 {
				h.Size = h.Size.Add(c.layers.SizeOf(meta.WarmLayer, id))
			}
			h.Held = h.Held || c.layers.Held(meta.WarmLayer, id)
		}
		if len(rec.Chain) > 0 && needed[rec.Chain[0]] == 1 {
			h.Size = h.Size.Add(times[rec.Chain[0]])
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
	h, ok := m.current(clone, key)
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

// nextHead returns the head that a workspace is about to move, with the chain below what it has at the path.
// The error says why the workspace must not move it.
func (m *Manager) nextHead(e Ended, p *promotion) (meta.WarmHead, error) {
	if !e.Publish {
		return meta.WarmHead{}, errors.New("the workspace publishes nothing")
	}
	m.mu.Lock()
	c := m.cloneLocked(e.Clone)
	h, exists := c.heads[p.Head]
	found := p.Chain // as the workspace found the head
	if len(p.Replaces) > 0 {
		found = p.Replaces
	}
	unmoved := exists && p.From == "" && (slices.Equal(h.Chain, found) || slices.Equal(c.expand(h.Chain), found))
	m.mu.Unlock()
	if !exists {
		unmoved = p.From != "" || len(found) == 0
		h = Want{Clone: e.Clone, UID: e.UID, GID: e.GID, Text: e.Text}.headOf(p.Path, e.Ref)
		h.Key, h.Chain = p.Head, p.Chain
	}
	if len(p.Replaces) > 0 || p.state == removed || p.opaque {
		h.Chain = nil
	}
	switch {
	case !unmoved:
		return h, errors.New("another workspace has moved its head meanwhile")
	case p.state == written && len(h.Chain) >= maxChain:
		m.flattenSoon(h.Clone, h.Key) // because no promotion would
		return h, errors.New("its layers have not been flattened yet")
	}
	h.Built = meta.Built{Commit: e.Commit, BuiltAt: e.builtAt, Label: e.Label}
	h.Used = m.config.Now()
	return h, nil
}

// expand returns a chain with each flattened layer replaced by the layers that it was made of.
func (c *clone) expand(chain []string) (list []string) {
	for _, id := range chain {
		l, _ := c.layers.Get(meta.WarmLayer, id)
		if len(l.Of) == 0 {
			l.Of = []string{id}
		}
		list = append(list, l.Of...)
	}
	return list
}
