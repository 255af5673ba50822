package clone

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
)

// Checkout is what a workspace stands on. It holds its layers until Release.
type Checkout struct {
	Resolution meta.Resolution
	// Default is the full name of the remote's default branch; empty if it has none.
	Default  string
	Tree     meta.Layer
	GitLayer meta.Layer
	// Lower are the layers' directories, topmost first.
	Lower []string
	// Reused is set when an earlier Mount was already served from this clone.
	Reused  bool
	release func()
}

// Release lets go of the layers. Call it once.
func (co *Checkout) Release() { co.release() }

const (
	// resolveTries bounds how often Prepare starts over.
	resolveTries = 5
	// settleAfter is how often a fetch for another volume may come between the
	// resolution and the git layer until Prepare settles for the commit that it has:
	// a tree is built for each, and a ref may move faster than that.
	settleAfter = 2
	// settleTries bounds how often the git layer of that commit, which takes
	// milliseconds, is begun anew because of a fetch.
	settleTries = 50
)

// Prepare resolves s.Ref, fetches what the store lacks and builds the layers
// that are missing, and returns them held. It asks the remote, unless it is given
// the Answer of an Ask. When ctx ends first, it returns ctx's cause, and what it
// began goes on in the background.
func (c *Clone) Prepare(ctx context.Context, s Spec, known *remote.Answer) (*Checkout, error) {
	began := c.m.Now()
	release, err := c.Use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.Sweep(ctx); err != nil {
		return nil, err
	}
	healed, fetched := false, 0
	for try := 0; ; try++ {
		before, there := c.Remote.Store(s.History)
		co, err := c.prepare(ctx, s, known, began, fetched >= settleAfter)
		switch {
		case errors.Is(err, remote.ErrFetched) && try < resolveTries:
			fetched++
			known = nil // older than the fetch, maybe
			continue
		case err != nil && there && try < resolveTries && !c.sameStore(s, before):
			// Somebody has set the store aside meanwhile, for it was damaged: the
			// error is about that one.
			continue
		case err != nil && !healed && (git.KindOf(err) == git.KindCorrupt || c.Remote.StoreLost(s.Source)):
			var healErr error
			if healed, healErr = c.Remote.HealStore(ctx, s.Source); healErr != nil {
				return nil, errors.Join(err, healErr)
			}
			if healed {
				continue
			}
		}
		return co, err
	}
}

// Refresh resolves s.Ref as a Prepare would, and fetches what the store lacks of
// it, but builds nothing.
func (c *Clone) Refresh(ctx context.Context, s Spec) (meta.Resolution, error) {
	release, err := c.Use(ctx)
	if err != nil {
		return meta.Resolution{}, err
	}
	defer release()
	if err := c.Sweep(ctx); err != nil {
		return meta.Resolution{}, err
	}
	r, _, err := c.Remote.Resolve(ctx, s.Source, nil)
	return r, err
}

// sameStore reports whether the store is the one that it was.
func (c *Clone) sameStore(s Spec, before meta.Store) bool {
	now, ok := c.Remote.Store(s.History)
	return ok && now.ClonedAt.Equal(before.ClonedAt)
}

// prepare does not mind, if settle is set, that the ref has moved since it was
// resolved.
func (c *Clone) prepare(ctx context.Context, s Spec, known *remote.Answer, began time.Time, settle bool) (*Checkout, error) {
	r, a, err := c.Remote.Resolve(ctx, s.Source, known)
	if err != nil {
		return nil, err
	}
	fetch, err := c.Remote.Align(ctx, s.Source, a)
	if err != nil && !(settle && errors.Is(err, remote.ErrFetched)) {
		return nil, err
	}
	if settle {
		defer c.Trees.Settle(r.Commit)()
	}
	for try := 0; ; try++ {
		tree, err := c.Trees.Tree(ctx, s, r.Commit)
		if err != nil {
			return nil, err
		}
		store, _ := c.Remote.Store(s.History)
		if now, ok := c.Remote.Resolution(s.Source); ok && now.Commit != r.Commit && !settle {
			return nil, remote.ErrFetched
		}
		gitLayer, err := c.Trees.GitLayer(ctx, s, r, store, tree)
		if settle && errors.Is(err, remote.ErrFetched) && try < settleTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		if co := c.checkout(s, r, tree, gitLayer, began); co != nil {
			if fetch {
				// Not before: it holds the lock for long.
				c.Remote.FetchOthers(ctx, s.Source, *a)
			}
			return co, nil
		}
		// One of them was collected in between: build it again.
	}
}

// checkout holds the two layers, or returns nil if one of them is gone.
func (c *Clone) checkout(s Spec, r meta.Resolution, tree, gitLayer meta.Layer, began time.Time) *Checkout {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Remote.Fetched() || !c.Trees.HoldKnown(tree, gitLayer) {
		return nil
	}
	store, _ := c.Remote.Store(s.History)
	c.touchLocked(tree, gitLayer)
	return &Checkout{
		Resolution: r, Default: store.Head, Tree: tree, GitLayer: gitLayer,
		Lower:   c.Trees.Lower(tree.Chain, gitLayer.ID),
		Reused:  !c.rec.FirstMount.IsZero() && c.rec.FirstMount.Before(began),
		release: func() { c.Trees.Drop(tree.Chain, gitLayer.ID) },
	}
}
