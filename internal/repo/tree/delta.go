package tree

import (
	"context"
	"errors"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/volume"
)

// buildDelta builds a tree on top of another one, if baseOf finds one: dir gets the
// difference between the two commits, as the next layer. The cost is proportional to the
// changes, plus reading and writing the index.
//
// If done, l has the chain, and the layers below it are held. Otherwise the caller can build
// the tree whole in dir; after an error it must remove dir's contents first.
func (c *Collection) buildDelta(ctx context.Context, s Spec, l *meta.Layer, dir string) (done bool, err error) {
	if s.Files.Submodules.Levels != volume.NoLevel {
		return false, nil // a move does not update submodules
	}
	base, err := c.baseOf(ctx, l)
	if base == nil || err != nil {
		return false, err
	}
	defer func() {
		if !done {
			c.layers.Drop(meta.Tree, base.Chain...)
		}
	}()
	if err := s.makeTop(dir); err != nil {
		return false, err
	}
	co := s.checkoutOf(c.repo, l.Commit, dir)
	co.Below = c.layers.Lower(meta.Tree, base.Chain...)
	found, err := checkout.Move(ctx, c.git, co, base.Commit)
	if errors.Is(err, checkout.ErrUnlike) {
		return false, disk.RemoveContents(dir)
	}
	if err != nil {
		return false, err
	}
	failpoint.Hit("tree/delta/moved")
	c.warnUnencoded(ctx, l.Commit, found)
	l.TracksCache = found.Tracked
	if err := c.fillLFS(ctx, s, c.common.rule(s), co, found); err != nil {
		return false, err
	}
	l.Chain = append([]string{l.ID}, base.Chain...)
	return true, nil
}

// maxLookups bounds how many trees of other stores baseOf looks up, because each lookup
// starts a git process.
const maxLookups = 4

// baseOf returns the tree to build l on, and holds its chain: the newest tree of l's shape
// whose commit is in l's store. It returns nil if no such tree exists, or if its chain is
// too long.
func (c *Collection) baseOf(ctx context.Context, l *meta.Layer) (*meta.Layer, error) {
	lookups := 0
	for _, t := range c.sameShape(l) {
		if t.Modules != "" || t.Commit == "" { // see buildDelta, and tree
			continue
		}
		known := t.Store == l.Store // another store has other commits
		if !known && lookups < maxLookups {
			var err error
			if known, err = c.git.Has(ctx, c.repo.StoreDir(l.Store), t.Commit); err != nil {
				return nil, err
			}
			lookups++
		}
		switch {
		case !known:
		case len(t.Chain) >= maxChain:
			return nil, nil
		case c.layers.HoldKnown(t):
			return &t, nil
		}
	}
	return nil, nil
}

// sameShape returns the trees of l's shape, newest first, without those whose files may have later times than those that l
// gets.
func (c *Collection) sameShape(l *meta.Layer) (list []meta.Layer) {
	list = slices.DeleteFunc(c.layers.List(meta.Tree), func(t meta.Layer) bool { return t.Shape != l.Shape || t.Shape == "" || c.isAhead(t, 0) })
	slices.SortFunc(list, func(a, b meta.Layer) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}
