package clone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/work"
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
	return work.ShareTask(ctx, c.used, "heal\x00"+name, func(ctx context.Context) (bool, error) {
		if _, ok := c.store(s.History); !ok {
			return false, nil
		}
		unlock, err := c.lock(ctx)
		if err != nil {
			return false, err
		}
		defer unlock()
		_, end := c.doing.Begin(ctx, "checking", s.URL.String())
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

// HealLayers forgets the layers whose directories are gone, so that the next Prepare
// builds them again. It reports whether there were any.
func (c *Clone) HealLayers(ctx context.Context) (healed bool, err error) {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	list, err := c.layers.Void(kinds...)
	if err != nil || len(list) == 0 {
		return false, err
	}
	c.m.Log.WithFields(map[string]any{"clone": c.key, "layers": len(list)}).Error("layers are gone: they are built again")
	c.forgetBuilt(list)
	return true, c.layers.Remove(list)
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
		_, err := work.ShareTask(ctx, c.used, "repack\x00"+dir, func(ctx context.Context) (struct{}, error) {
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
