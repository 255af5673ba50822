package warm

import (
	"context"
	"errors"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// mergeable returns a cache with only the layers of its chain that are to be merged: the topmost ones, as long as the
// next is not more than twice as large as those above, so that a name is linked again only some times in its life. It is
// without a chain if these are fewer than two. The base stays.
func (m *Manager) mergeable(h meta.WarmHead) meta.WarmHead {
	layers, top := m.config.Layers.Set(h.Clone), m.withoutBase(h)
	n, sum := 0, int64(0)
	for n < len(top) {
		size := layers.SizeOf(meta.WarmLayer, top[n]).Inodes
		if n > 0 && size > 2*sum && len(h.Chain) < maxChain {
			break
		}
		n, sum = n+1, sum+size
	}
	if h.Chain = top[:n]; n < 2 {
		h.Chain = nil
	}
	return h
}

// withoutBase returns the layers of a cache that have published files.
func (m *Manager) withoutBase(h meta.WarmHead) []string {
	return slices.DeleteFunc(slices.Clone(h.Chain), func(id string) bool {
		l, _ := m.config.Layers.Set(h.Clone).Get(meta.WarmLayer, id)
		return l.Cache == meta.CacheBase
	})
}

// DropCache removes the published files of the caches of a clone, or those at a path below the cache and below that; "" for
// all. uid limits that to one uid, if it is not nil. Workspaces that use a cache keep what they began with. It returns how
// many bytes and inodes went.
func (m *Manager) DropCache(ctx context.Context, clone string, uid *uint32, rel string) (gone disk.Size, err error) {
	if err := m.sweep(ctx, clone); err != nil {
		return gone, err
	}
	for _, h := range m.cacheHeads(clone, uid) {
		less, err := m.dropCache(ctx, h, rel)
		gone = gone.Add(less)
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

func (m *Manager) dropCache(ctx context.Context, h meta.WarmHead, rel string) (gone disk.Size, err error) {
	turn, err := m.publishing.Lock(ctx, h.Clone+"/"+h.Key)
	if err != nil {
		return gone, err
	}
	defer turn()
	if rel == "" {
		return m.ChainSize(h.Clone, h.Chain), m.Evict(ctx, h.Clone, h.Key)
	}
	h, held := m.holdHead(h)
	defer func() { m.Drop(h.Clone, held) }()
	before := m.ChainSize(h.Clone, h.Chain)
	h.Chain = m.withoutBase(h)
	l, temp, err := m.union(ctx, h, rel)
	if err != nil {
		return gone, err
	}
	defer func() { err = errors.Join(err, m.config.Layers.Set(h.Clone).Discard(temp)) }()
	unlock, err := m.lock(ctx, h.Clone)
	if err != nil {
		return gone, err
	}
	defer unlock()
	now, ok := m.current(h.Clone, h.Key)
	if !ok { // evicted meanwhile
		return before, nil
	}
	now.Chain = []string{l.ID, baseID(h)}
	if _, known := m.config.Layers.Set(h.Clone).Get(meta.WarmLayer, baseID(h)); !known {
		now.Chain = now.Chain[:1] // the next mount makes it
	}
	if err := m.commit(h.Clone, change{made: []layer.Built{{Layer: l, Temp: temp}}, heads: []meta.WarmHead{now}}); err != nil {
		return gone, err
	}
	return before.Sub(m.ChainSize(h.Clone, now.Chain)), nil
}

// union merges the layers of a cache into a new one, in a temporary directory, without what is at the path rel, if that is
// not empty.
func (m *Manager) union(ctx context.Context, h meta.WarmHead, rel string) (l meta.Layer, _ string, err error) {
	temp, err := m.cacheTemp(h)
	if err != nil {
		return l, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.config.Layers.Set(h.Clone).Discard(temp))
		}
	}()
	size, err := cache.Union(ctx, m.cacheDirs(h.Clone, h.Chain), cacheDir(temp), int(h.UID), int(h.GID), rel)
	if err != nil {
		return l, "", err
	}
	now := m.config.Now()
	return meta.Layer{
		Kind: meta.WarmLayer, ID: newID(), Of: m.linked(h), Cache: meta.CacheFiles, Size: meta.Measured{Size: size, At: now}, BuiltAt: now,
	}, temp, nil
}

// linked returns the known layers that a union of the layers of a cache may share files with.
func (m *Manager) linked(h meta.WarmHead) (list []string) {
	layers := m.config.Layers.Set(h.Clone)
	for _, id := range h.Chain {
		l, _ := layers.Get(meta.WarmLayer, id)
		list = append(append(list, id), l.Of...)
	}
	return slices.DeleteFunc(list, func(id string) bool {
		_, known := layers.Get(meta.WarmLayer, id)
		return !known
	})
}

// EvictCacheLayer removes a layer from the caches of a clone. What workspaces use is removed when they end. An unknown
// layer is not an error.
func (m *Manager) EvictCacheLayer(ctx context.Context, clone, id string) error {
	unlock, err := m.lock(ctx, clone)
	if err != nil {
		return err
	}
	defer unlock()
	var ch change
	m.mu.Lock()
	for _, h := range m.cloneLocked(clone).heads {
		if i := slices.Index(h.Chain, id); h.Path == cache.Mount && i >= 0 {
			h.Chain = slices.Delete(slices.Clone(h.Chain), i, i+1)
			ch.heads = append(ch.heads, h)
		}
	}
	m.mu.Unlock()
	if len(ch.heads) == 0 {
		return nil
	}
	return m.commit(clone, ch)
}
