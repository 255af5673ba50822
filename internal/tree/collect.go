package tree

import (
	"context"
	"slices"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
)

// collectSoon trashes, in the background, layers that nothing needs any more:
// no workspace stands on them, and no ref that a volume has named is at their
// commit. It is for whoever has made a layer, or let go of one.
func (c *Collection) collectSoon() {
	if len(c.unneeded()) == 0 {
		return
	}
	c.remote.Used.Group.Go(func(ctx context.Context) {
		_, err := work.ShareOn(ctx, c.remote.Used, "collect", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, c.collect(ctx)
		})
		if err != nil && ctx.Err() == nil {
			c.remote.Log.WithError(err).Warn("collect layers")
		}
	})
}

// unneeded lists the layers that nothing needs.
func (c *Collection) unneeded() []meta.Layer {
	if !c.remote.Fetched() {
		return nil
	}
	needs := c.Needs()
	return slices.DeleteFunc(c.layers.List(Kinds...), func(l meta.Layer) bool { return needs[l.ID] != "" })
}

// Needs says, by ID, what needs a layer: what holds it, a ref that a volume has
// named and that is at its commit, or a tree of that kind that stands on it.
func (c *Collection) Needs() map[string]string {
	stores := c.remote.Stores()
	refs := c.refs(stores)
	needs := make(map[string]string)
	for _, l := range c.layers.List(Kinds...) {
		need := refs[l.Commit]
		if l.Kind == meta.GitLayer && l.Snapshot != stores[l.Store].Snapshot {
			need = ""
		}
		if len(l.Chain) > 1 {
			if _, flat := c.flat(l.Shape, l.Commit); flat {
				need = "" // mounts take that one
			}
		}
		if c.layers.Held(l.Kind, l.ID) {
			need = heldBy
		}
		if need == "" {
			continue
		}
		for _, id := range l.Stack() {
			if needs[id] != heldBy {
				needs[id] = need
			}
		}
	}
	return needs
}

// refs names, by commit, a ref that a volume has named and that is there, or the
// Prepare that settles for the commit.
func (c *Collection) refs(stores map[string]meta.Store) map[string]string {
	refs := make(map[string]string)
	for _, store := range stores {
		for name, r := range store.Refs {
			refs[r.Commit] = "ref " + name
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for commit := range c.settling {
		refs[commit] = heldBy
	}
	return refs
}

const heldBy = "a workspace, a discard or a build"

func (c *Collection) collect(ctx context.Context) error {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	list := c.layers.Take(c.unneeded())
	c.forgetBuilt(list)
	return c.layers.Remove(list)
}
