package clone

import (
	"context"
	"errors"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// collectSoon trashes, in the background, layers that nothing needs any more:
// no workspace stands on them, and no ref that a volume has named is at their
// commit.
func (c *Clone) collectSoon() {
	if len(c.unneeded(false)) == 0 {
		return
	}
	c.m.Background(func(ctx context.Context) {
		_, err := share(ctx, c.m, "collect\x00"+c.key, func(context.Context) (struct{}, error) {
			return struct{}{}, c.collect()
		})
		if err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).WithField("clone", c.key).Warn("collect layers")
		}
	})
}

// unneeded lists layers that nothing needs; with remove it also takes them out
// of memory, so that no Prepare can hold them.
func (c *Clone) unneeded(remove bool) []meta.Layer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec == nil {
		return nil
	}
	current := make(map[string]bool)
	for _, store := range c.rec.Stores {
		for _, r := range store.Refs {
			current[r.Commit] = true
		}
	}
	var list []meta.Layer
	needed := make(map[string]bool) // also by a tree that stands on it
	for id, l := range c.trees {
		if current[l.Commit] || c.users[c.treeDir(id)] > 0 {
			for _, below := range l.Chain {
				needed[below] = true
			}
		}
	}
	for id, l := range c.trees {
		if !needed[id] {
			list = append(list, l)
			if remove {
				delete(c.trees, id)
			}
		}
	}
	for id, l := range c.gitLayers {
		if !(current[l.Commit] && l.Snapshot == c.rec.Stores[l.Store].Snapshot) && c.users[c.gitLayerDir(id)] == 0 {
			list = append(list, l)
			if remove {
				delete(c.gitLayers, id)
			}
		}
	}
	return list
}

func (c *Clone) collect() error {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	list := c.unneeded(true)
	if err := c.m.DB.Update(func(tx *meta.Tx) error {
		for _, l := range list {
			del := tx.DeleteTree
			if l.Snapshot != "" {
				del = tx.DeleteGitLayer
			}
			if err := del(l); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		c.mu.Lock() // else their directories would be in the way of the next ones
		defer c.mu.Unlock()
		for _, l := range list {
			if l.Snapshot != "" {
				c.gitLayers[l.ID] = l
			} else {
				c.trees[l.ID] = l
			}
		}
		return err
	}
	failpoint.Hit("clone/collect/recorded")
	var errs []error
	for _, l := range list {
		dir := c.treeDir(l.ID)
		if l.Snapshot != "" {
			dir = c.gitLayerDir(l.ID)
		}
		_, err := c.m.Trash.Put(dir, "layer")
		errs = append(errs, err)
		failpoint.Hit("clone/collect/trashed")
	}
	return errors.Join(errs...)
}
