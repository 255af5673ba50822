package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// buildDelta builds a tree on top of the one that is nearest to it, if there is
// one: the other's layers are mounted under dir as an upper, and the checkout there
// is moved from one commit to the other. What that wrote is the layer. It costs what
// has changed, and an index. It reports whether it did, and then what l stands on is
// held; if not, the tree can be built whole in dir once that is empty. Done with an
// error is for good: dir may be part of a mount.
func (c *Collection) buildDelta(ctx context.Context, s Spec, l *meta.Layer, root, dir string) (done bool, err error) {
	if s.Files.Submodules != volume.SubmodulesNone {
		return false, nil // each is a repository of its own
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
			return // the next start's sweep detaches it first
		}
		if err := c.layers.Discard(build); err != nil {
			c.remote.Log.WithError(err).Warn("what a build leaves stays until the next start")
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
	// The mount is gone for good before its upper becomes a lower layer.
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
		return false, removeContents(dir)
	}
	if err != nil {
		return false, err
	}
	l.Chain = append([]string{l.ID}, base.Chain...)
	return true, nil
}

// moveTo moves the checkout of a commit at target to l's.
func (c *Collection) moveTo(ctx context.Context, s Spec, l *meta.Layer, from, root, target string) error {
	co := c.checkoutOf(s, l.Commit, target)
	found, err := checkout.Move(ctx, c.remote.Git, co, from, root)
	if err != nil {
		return err
	}
	c.warnUnencoded(l.Commit, found)
	l.TracksCache = found.Tracked
	return c.lfs.fill(ctx, s, c.rule(s), co, found)
}

// maxUnknown is how many trees of commits that a store does not know are passed
// over, for each costs a git.
const maxUnknown = 4

// baseOf returns the tree to build l on, the newest of the same shape of whose
// commit l's store knows, if there is one and it is not too deep. Its chain is held.
func (c *Collection) baseOf(ctx context.Context, l *meta.Layer) (*meta.Layer, error) {
	unknown := 0
	for _, t := range c.sameShape(l) {
		if t.Modules != "" { // each is a repository of its own
			continue
		}
		if t.Store != l.Store { // which has other commits
			if unknown == maxUnknown {
				continue
			}
			ok, err := c.remote.Git.Has(ctx, c.remote.StoreDir(l.Store), t.Commit)
			if err != nil {
				return nil, err
			}
			if !ok {
				unknown++
				continue
			}
		}
		if len(t.Chain) >= maxChain {
			return nil, nil
		}
		if c.layers.HoldKnown(t) {
			return &t, nil
		}
	}
	return nil, nil
}

// sameShape returns the trees of l's shape, the newest first.
func (c *Collection) sameShape(l *meta.Layer) (list []meta.Layer) {
	list = slices.DeleteFunc(c.layers.List(meta.Tree), func(t meta.Layer) bool { return t.Shape != l.Shape || t.Shape == "" })
	slices.SortFunc(list, func(a, b meta.Layer) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}

// removeContents removes what is in a directory that only we and git have written to.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
