package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// buildDelta builds a tree on top of another one, if baseOf finds one. It mounts an
// overlay of the other tree's layers, with dir as the upper directory, and moves the
// checkout there to l's commit; the files that this writes are the layer. The cost is
// proportional to the changes, plus reading and writing the index.
//
// If done && err == nil, l has the chain, and the layers below it are held. If !done, the
// caller can build the tree whole in dir; after an error it must remove dir's contents
// first. If done && err != nil, dir may still be mounted: do not reuse it.
func (c *Collection) buildDelta(ctx context.Context, s Spec, l *meta.Layer, root, dir string) (done bool, err error) {
	if s.Files.Submodules != volume.SubmodulesNone {
		return false, nil // a move does not update submodules
	}
	base, err := c.baseOf(ctx, l)
	if base == nil || err != nil {
		return false, err
	}
	defer func() {
		if !done || err != nil {
			c.layers.Drop(meta.Tree, base.Chain...)
		}
	}()
	build, err := c.layers.Temp(meta.Tree)
	if err != nil {
		return false, err
	}
	mounted := false
	defer func() {
		if mounted {
			return // the sweep of the next start detaches it and removes the directory
		}
		if err := c.layers.Discard(build); err != nil {
			c.remote.Log.WithContext(ctx).WithError(err).Warn("the temporary files of a build stay until the next start")
		}
	}()
	work, target := filepath.Join(build, "work"), filepath.Join(build, "tree")
	if err := errors.Join(os.Mkdir(work, 0o700), os.Mkdir(target, 0o755), os.Chown(dir, int(s.UID), int(s.GID))); err != nil {
		return false, err
	}
	spec := overlay.Spec{Source: "helmdeck-repos", Lower: c.layers.Lower(meta.Tree, base.Chain...), Upper: dir, Work: work, Target: target, Volatile: true}
	if err := overlay.Mount(spec); err != nil {
		return false, err
	}
	mounted = true
	failpoint.Hit("clone/delta/mounted")
	err = c.moveTo(ctx, s, l, base.Commit, root, target)
	failpoint.Hit("clone/delta/moved")
	// The mount must be gone before its upper directory becomes a lower one.
	free, detachErr := overlay.Detach(target)
	if detachErr == nil {
		detachErr = free()
	}
	if detachErr != nil {
		return true, errors.Join(err, detachErr)
	}
	mounted = false
	failpoint.Hit("clone/delta/detached")
	if errors.Is(err, checkout.ErrUnlike) {
		return false, disk.RemoveContents(dir)
	}
	if err != nil {
		return false, err
	}
	l.Chain = append([]string{l.ID}, base.Chain...)
	return true, nil
}

// moveTo moves the checkout at target from one commit to l's.
func (c *Collection) moveTo(ctx context.Context, s Spec, l *meta.Layer, from, root, target string) error {
	co := s.checkoutOf(c.remote, l.Commit, target)
	found, err := checkout.Move(ctx, c.remote.Git, co, from, root)
	if err != nil {
		return err
	}
	c.warnUnencoded(ctx, l.Commit, found)
	l.TracksCache = found.Tracked
	return c.fillLFS(ctx, s, c.shared.rule(s), co, found)
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
		if t.Modules != "" { // see buildDelta
			continue
		}
		known := t.Store == l.Store // another store has other commits
		if !known && lookups < maxLookups {
			var err error
			if known, err = c.remote.Git.Has(ctx, c.remote.StoreDir(l.Store), t.Commit); err != nil {
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

// sameShape returns the trees of l's shape, newest first.
func (c *Collection) sameShape(l *meta.Layer) (list []meta.Layer) {
	list = slices.DeleteFunc(c.layers.List(meta.Tree), func(t meta.Layer) bool { return t.Shape != l.Shape || t.Shape == "" })
	slices.SortFunc(list, func(a, b meta.Layer) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}
