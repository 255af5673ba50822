package clone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
)

// repackAt is the number of packs from which a store is repacked: every fetch
// adds one, and a container's git opens the index of each for what it looks up.
const repackAt = 40

// storeLost reports whether the store that the record names is not on the disk.
func (c *Clone) storeLost(s Spec) bool {
	if _, ok := c.store(s.History); !ok {
		return false
	}
	there, err := exists(c.storeDir(s.History.Name()))
	return err == nil && !there
}

// healStore sets a store aside if git finds it damaged, so that the next fetch
// clones it again. It reports whether it did: when the store is sound, what
// looked like damage came from the remote.
func (c *Clone) healStore(ctx context.Context, s Spec) (healed bool, err error) {
	name := s.History.Name()
	return shareUsing(ctx, c, "heal\x00"+c.key+"\x00"+name, func(ctx context.Context) (bool, error) {
		if _, ok := c.store(s.History); !ok {
			return false, nil
		}
		unlock, err := c.lock(ctx)
		if err != nil {
			return false, err
		}
		defer unlock()
		_, end := c.begin(ctx, "checking", s.URL.String())
		defer end()
		damage := c.m.Git.Check(ctx, c.storeDir(name))
		if git.KindOf(damage) != git.KindCorrupt {
			return false, damage
		}
		c.m.Log.WithError(damage).WithFields(map[string]any{"clone": c.key, "store": name}).Error("the store is damaged: it is set aside and cloned again")
		c.mu.Lock()
		if c.rec == nil {
			c.mu.Unlock()
			return false, nil
		}
		store := c.rec.Stores[name]
		delete(c.rec.Stores, name)
		c.mu.Unlock()
		if err := c.save(); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.rec != nil {
				c.rec.Stores[name] = store // it is still to be set aside
			}
			return false, err
		}
		failpoint.Hit("clone/heal/recorded")
		if ok, err := exists(c.storeDir(name)); err != nil || !ok {
			return true, err
		}
		_, err = c.m.Trash.Put(c.storeDir(name), "damaged-store")
		failpoint.Hit("clone/heal/aside")
		return true, err
	})
}

// HealLayers forgets the layers of a checkout whose directories are gone, so that
// the next Prepare builds them again. It reports whether there were any.
func (c *Clone) HealLayers(co *Checkout) (healed bool, err error) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	gone := func(set *layerSet, ids ...string) (map[string]bool, error) {
		list := make(map[string]bool)
		for _, id := range ids {
			if ok, err := exists(set.path(id)); err != nil {
				return nil, err
			} else if !ok {
				list[id] = true
			}
		}
		return list, nil
	}
	trees, err := gone(c.trees, co.Tree.Chain...)
	if err != nil {
		return false, err
	}
	gitLayers, err := gone(c.gitLayers, co.GitLayer.ID)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	list := c.trees.members(func(l meta.Layer) bool {
		return slices.ContainsFunc(l.Chain, func(id string) bool { return trees[id] })
	})
	list = append(list, c.gitLayers.members(func(l meta.Layer) bool { return gitLayers[l.ID] })...)
	takeOut(list)
	c.mu.Unlock()
	if len(list) == 0 {
		return false, nil
	}
	c.m.Log.WithFields(map[string]any{"clone": c.key, "layers": len(list)}).Error("layers are gone: they are built again")
	return true, c.remove(list)
}

// repackSoon repacks a store of many packs in the background. Git layers that are
// in use keep the packs that they link.
func (c *Clone) repackSoon(s Spec) {
	dir := c.storeDir(s.History.Name())
	packs, err := filepath.Glob(filepath.Join(dir, "objects/pack", "*.pack"))
	if err != nil || len(packs) < repackAt || s.History.NoBlobs {
		return // the packs of a partial clone say which objects may be missing
	}
	c.m.Background(func(ctx context.Context) {
		_, err := shareUsing(ctx, c, "repack\x00"+dir, func(ctx context.Context) (struct{}, error) {
			unlock, err := c.lock(ctx)
			if err != nil {
				return struct{}{}, err
			}
			defer unlock()
			if err := c.m.Git.Repack(ctx, dir); err != nil {
				return struct{}{}, errors.Join(err, git.SweepStore(dir))
			}
			c.measureSoon(s.History.Name())
			c.m.Log.WithFields(map[string]any{"clone": c.key, "packs": len(packs)}).Info("repacked")
			return struct{}{}, nil
		})
		if err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).Warn(fmt.Sprintf("repack %s", c.key))
		}
	})
}
