package warm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// The dependency cache of a uid and gid is a head at cache.Mount. Its lowest layer, the base, has the directories of the
// tools. Each of the others has what one workspace published. The layers depend on nothing below them: no name is of two
// kinds in them, and nothing is removed, so any of them may go, and some can be merged.

// IsCache reports whether a warm path is that of the dependency cache.
func IsCache(p meta.WarmPath) bool { return p.Path == cache.Mount }

// IsUsedCache reports whether a warm path is that of a cache that the workspace has.
func IsUsedCache(p meta.WarmPath) bool { return IsCache(p) && p.LeftOut == "" }

// cacheHead returns the head of a cache, without a chain.
func cacheHead(clone string, uid, gid uint32) meta.WarmHead {
	return Want{Clone: clone, UID: uid, GID: gid}.headOf(cache.Mount, "")
}

// baseID returns the ID of the base layer of a cache.
func baseID(h meta.WarmHead) string {
	sum := sha256.Sum256(append([]byte(h.Key+"\x00"+cache.Tag), cache.Env...))
	return hex.EncodeToString(sum[:8])
}

// Cache returns the layers of the cache of a uid and gid, and holds them until Drop. It makes the cache if there is none.
func (m *Manager) Cache(ctx context.Context, clone string, uid, gid uint32) (meta.WarmPath, error) {
	want := Want{Clone: clone, UID: uid, GID: gid, Paths: []string{cache.Mount}}
	base := baseID(cacheHead(clone, uid, gid))
	for try := 0; ; try++ {
		if err := m.sweep(ctx, clone); err != nil {
			return meta.WarmPath{}, err
		}
		paths := m.choose(want, []string{""})
		missing := m.config.Layers.Set(clone).Missing(meta.WarmLayer, ids(paths)...)
		if !missing && slices.Contains(paths[0].Chain, base) {
			return paths[0], nil
		}
		m.Drop(clone, paths)
		if err := ctx.Err(); err != nil || try > 2 {
			return meta.WarmPath{}, errors.Join(errLost, err)
		}
		if missing { // another program removed a directory: a new sweep removes it from the heads
			m.clone(clone).swept.Store(false)
			continue
		}
		if err := m.makeBase(ctx, cacheHead(clone, uid, gid)); err != nil {
			return meta.WarmPath{}, err
		}
	}
}

// makeBase makes the base layer of a cache, if the head lacks it, in place of that of another version of the plugin.
func (m *Manager) makeBase(ctx context.Context, h meta.WarmHead) error {
	unlock, err := m.lock(ctx, h.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	id, layers := baseID(h), m.config.Layers.Set(h.Clone)
	if old, ok := m.current(h.Clone, h.Key); ok {
		h = old
	}
	if slices.Contains(h.Chain, id) {
		return nil
	}
	h.Chain = append(m.withoutBase(h), id)
	h.Used = m.config.Now()
	ch := change{heads: []meta.WarmHead{h}}
	if _, known := layers.Get(meta.WarmLayer, id); !known || layers.Missing(meta.WarmLayer, id) { // else a workspace holds it
		temp, err := m.tempDir(h.Clone, cache.Mount, h.UID, h.GID)
		if err != nil {
			return err
		}
		defer func() { _ = layers.Discard(temp) }() // nothing, once it is a layer
		if err := cache.Base(cacheDir(temp), int(h.UID), int(h.GID)); err != nil {
			return fmt.Errorf("prepare the directories of the cache: %w", err)
		}
		size, err := disk.Measure(ctx, temp)
		if err != nil {
			return err
		}
		l := meta.Layer{Kind: meta.WarmLayer, ID: id, Cache: meta.CacheBase, Size: meta.Measured{Size: size, At: m.config.Now()}}
		ch.made = []layer.Built{{Layer: l, Temp: temp}}
	}
	return m.commit(h.Clone, ch)
}

// cacheTemp makes a temporary directory for a layer of a cache, with an empty directory of the cache.
func (m *Manager) cacheTemp(h meta.WarmHead) (temp string, err error) {
	temp, err = m.tempDir(h.Clone, cache.Mount, h.UID, h.GID)
	if err != nil {
		return "", err
	}
	if err := (owner{int(h.UID), int(h.GID)}).mkdir(cacheDir(temp)); err != nil {
		return "", errors.Join(err, m.config.Layers.Set(h.Clone).Discard(temp))
	}
	return temp, nil
}

// cacheDir returns the directory of the cache in that of a layer.
func cacheDir(layer string) string { return filepath.Join(layer, filesPart, cache.Mount) }

// cacheDirs returns the directories of the cache in those of layers, topmost first.
func (m *Manager) cacheDirs(clone string, chain []string) (list []string) {
	for _, dir := range m.config.Layers.Set(clone).Lower(meta.WarmLayer, chain...) {
		list = append(list, cacheDir(dir))
	}
	return list
}

// CacheSize returns the size of the caches of a clone. It does no I/O.
func (m *Manager) CacheSize(clone string) disk.Size { return m.config.Layers.Set(clone).Sizes().Caches }

// CacheInfo describes the cache of a uid and gid.
type CacheInfo struct {
	UID, GID uint32
	Size     disk.Size // with the base
	Layers   int       // with files that workspaces published
	Used     time.Time // by a workspace, to about a minute
	// PublishedAt is when its files last changed; zero for never.
	PublishedAt time.Time
}

// Caches returns the caches of a clone, by uid and gid. It does no I/O.
func (m *Manager) Caches(clone string) (list []CacheInfo) {
	for _, h := range m.cacheHeads(clone, nil) {
		info := CacheInfo{UID: h.UID, GID: h.GID, Size: m.ChainSize(clone, h.Chain), Used: h.Used}
		for _, id := range h.Chain {
			l, _ := m.config.Layers.Set(clone).Get(meta.WarmLayer, id)
			if l.Cache == meta.CacheFiles {
				info.Layers++
				if info.PublishedAt.IsZero() { // the topmost
					info.PublishedAt = l.BuiltAt
				}
			}
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b CacheInfo) int { return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.GID, b.GID)) })
	return list
}

// cacheHeads returns the heads of a clone's caches, or of those of one uid, if it is not nil.
func (m *Manager) cacheHeads(clone string, uid *uint32) (list []meta.WarmHead) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.cloneLocked(clone).heads {
		if h.Path == cache.Mount && (uid == nil || *uid == h.UID) {
			list = append(list, h)
		}
	}
	return list
}

// CacheLayer is a layer of a cache with what the janitor needs to know.
type CacheLayer struct {
	ID    string
	Depth int       // below the topmost layer of the cache
	Size  disk.Size // without the files of layers that it was merged from and that a workspace holds
	Used  time.Time // when a workspace last used the cache, to about a minute
	// Held is set while a workspace holds the layer, or those that it was merged from: then evicting it frees nothing
	// yet, or little.
	Held bool
}

// CacheLayers returns the layers of a clone's caches that have published files. It does no I/O.
func (m *Manager) CacheLayers(clone string) (list []CacheLayer) {
	layers := m.config.Layers.Set(clone)
	for _, h := range m.cacheHeads(clone, nil) {
		for depth, id := range h.Chain {
			if l, _ := layers.Get(meta.WarmLayer, id); l.Cache == meta.CacheFiles {
				own := layers.Own(meta.WarmLayer, id)
				list = append(list, CacheLayer{id, depth, own, h.Used, layers.Held(meta.WarmLayer, id) || own.Bytes < l.Size.Bytes/2})
			}
		}
	}
	return list
}
