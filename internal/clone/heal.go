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
	return share(ctx, c.m, "heal\x00"+c.key+"\x00"+name, func(ctx context.Context) (bool, error) {
		if _, ok := c.store(s.History); !ok {
			return false, nil
		}
		unlock, err := c.lock(ctx)
		if err != nil {
			return false, err
		}
		defer unlock()
		_, end := c.begin("checking", s.URL.String())
		defer end()
		damage := c.m.Git.Check(ctx, c.storeDir(name))
		if git.KindOf(damage) != git.KindCorrupt {
			return false, damage
		}
		c.m.Log.WithError(damage).WithFields(map[string]any{"clone": c.key, "store": name}).Error("the store is damaged: it is set aside and cloned again")
		c.mu.Lock()
		delete(c.rec.Stores, name)
		rec := c.rec.Copy()
		c.mu.Unlock()
		if err := c.m.DB.Update(func(tx *meta.Tx) error { return tx.PutClone(rec) }); err != nil {
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
	lost := func(dir string) bool {
		ok, existsErr := exists(dir)
		err = errors.Join(err, existsErr)
		return existsErr == nil && !ok
	}
	gone := make(map[string]bool) // tree layers
	for _, id := range co.Tree.Chain {
		if lost(c.treeDir(id)) {
			gone[id] = true
		}
	}
	dropGit := lost(c.gitLayerDir(co.GitLayer.ID))
	if err != nil || len(gone) == 0 && !dropGit {
		return false, err
	}
	c.mu.Lock()
	var trees []meta.Layer
	for _, t := range c.trees {
		if slices.ContainsFunc(t.Chain, func(id string) bool { return gone[id] }) {
			trees = append(trees, t)
		}
	}
	c.mu.Unlock()
	err = c.m.DB.Update(func(tx *meta.Tx) error {
		var errs []error
		for _, t := range trees {
			errs = append(errs, tx.DeleteTree(t))
		}
		if dropGit {
			errs = append(errs, tx.DeleteGitLayer(co.GitLayer))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	for _, t := range trees {
		delete(c.trees, t.ID)
	}
	if dropGit {
		delete(c.gitLayers, co.GitLayer.ID)
	}
	c.mu.Unlock()
	c.m.Log.WithFields(map[string]any{"clone": c.key, "trees": len(trees), "git_layer": dropGit}).Error("layers are gone: they are built again")
	return true, nil
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
		_, err := share(ctx, c.m, "repack\x00"+dir, func(ctx context.Context) (struct{}, error) {
			unlock, err := c.lock(ctx)
			if err != nil {
				return struct{}{}, err
			}
			defer unlock()
			if err := c.m.Git.Repack(ctx, dir); err != nil {
				return struct{}{}, errors.Join(err, git.SweepStore(dir))
			}
			c.m.Log.WithFields(map[string]any{"clone": c.key, "packs": len(packs)}).Info("repacked")
			return struct{}{}, nil
		})
		if err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).Warn(fmt.Sprintf("repack %s", c.key))
		}
	})
}
