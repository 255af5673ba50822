package clone

import (
	"context"

	"github.com/helmdeck/repos/internal/meta"
)

// collectSoon trashes, in the background, layers that nothing needs any more:
// no workspace stands on them, and no ref that a volume has named is at their
// commit. It is for whoever has made a layer, or let go of one.
func (c *Clone) collectSoon() {
	c.mu.Lock()
	n := len(c.unneeded())
	c.mu.Unlock()
	if n == 0 {
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

// unneeded lists the layers that nothing needs. It is called with mu held.
func (c *Clone) unneeded() []member {
	if c.rec == nil {
		return nil
	}
	current := c.currentCommits()
	needed := make(map[string]bool) // also by a tree that stands on it
	for id, l := range c.trees.known {
		if current[l.Commit] || c.trees.users[id] > 0 {
			for _, below := range l.Chain {
				needed[below] = true
			}
		}
	}
	list := c.trees.members(func(l meta.Layer) bool { return !needed[l.ID] })
	return append(list, c.gitLayers.members(func(l meta.Layer) bool {
		return !(current[l.Commit] && l.Snapshot == c.rec.Stores[l.Store].Snapshot) && c.gitLayers.users[l.ID] == 0
	})...)
}

// currentCommits are those at which refs are that volumes have named. It is
// called with mu held.
func (c *Clone) currentCommits() map[string]bool {
	current := make(map[string]bool)
	for _, store := range c.rec.Stores {
		for _, r := range store.Refs {
			current[r.Commit] = true
		}
	}
	return current
}

func (c *Clone) collect() error {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	c.mu.Lock()
	list := c.unneeded()
	takeOut(list)
	c.mu.Unlock()
	return c.remove(list)
}
