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
		_, err := share(ctx, c, "collect\x00"+c.key, func(context.Context) (struct{}, error) {
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
	needs := c.needs()
	free := func(l meta.Layer) bool { return needs[l.ID] == "" }
	return append(c.trees.members(free), c.gitLayers.members(free)...)
}

// needs says, by ID, what needs a layer: what holds it, a ref that a volume has
// named and that is at its commit, or a tree of that kind that stands on it. It is
// called with mu held, of a clone that has a record.
func (c *Clone) needs() map[string]string {
	refs := c.refs()
	needs := make(map[string]string)
	for id, l := range c.trees.known {
		need := refs[l.Commit]
		if len(l.Chain) > 1 {
			if _, flat := c.flatLocked(l.Shape, l.Commit); flat {
				need = "" // mounts take that one
			}
		}
		if c.trees.users[id] > 0 {
			need = heldBy
		}
		if need == "" {
			continue
		}
		for _, below := range l.Chain {
			if needs[below] != heldBy {
				needs[below] = need
			}
		}
	}
	for id, l := range c.gitLayers.known {
		switch {
		case c.gitLayers.users[id] > 0:
			needs[id] = heldBy
		case l.Snapshot == c.rec.Stores[l.Store].Snapshot:
			needs[id] = refs[l.Commit]
		}
	}
	return needs
}

// refs names, by commit, a ref that a volume has named and that is there, or the
// Prepare that settles for the commit. It is
// called with mu held, of a clone that has a record.
func (c *Clone) refs() map[string]string {
	refs := make(map[string]string)
	for _, store := range c.rec.Stores {
		for word, r := range store.Refs {
			refs[r.Commit] = "ref " + word
		}
	}
	for commit := range c.settling {
		refs[commit] = heldBy
	}
	return refs
}

const heldBy = "a workspace, a discard or a build"

func (c *Clone) collect() error {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	c.mu.Lock()
	list := c.unneeded()
	takeOut(list)
	c.mu.Unlock()
	return c.remove(list)
}
