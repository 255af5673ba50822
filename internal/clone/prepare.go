package clone

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/phase"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
)

// Checkout is the part of a workspace that a clone provides. Its layers are held until
// Release.
type Checkout struct {
	Resolution meta.Resolution
	// Default is the full name of the remote's default branch; empty if it has none.
	Default  string
	Tree     meta.Layer
	GitLayer meta.Layer
	Lower    []string // the directories of the layers, topmost first
	Reused   bool     // an earlier Mount has used the clone
	Shallow  bool     // it has volume.ColdHistory
	release  func()
}

// Release drops the layers. Call it once.
func (co *Checkout) Release() { co.release() }

const (
	// resolveTries is how often Prepare may start over.
	resolveTries = 5
	// settleAfter is how often a fetch for another volume may come between the resolution
	// and the git layer. Then Prepare settles for the commit that it has, because each
	// try builds a tree, and a ref may move faster than that.
	settleAfter = 2
	// settleTries is how often Prepare may start the git layer of that commit again after
	// a fetch. A git layer takes milliseconds.
	settleTries = 50
)

// Prepare resolves s.Ref, fetches missing objects, builds missing layers and holds them.
// It asks the remote, unless known has the Answer of an Ask. With s.ColdShallow it does not
// wait for the first fetch of the full history. If ctx ends first, the error is its cause,
// and the work continues in the background.
func (c *Clone) Prepare(ctx context.Context, s Spec, known *remote.Answer) (*Checkout, error) {
	began := c.m.Now()
	release, err := c.Use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.prepareUsed(ctx, s, known, attempt{began: began})
}

// WithCheckout prepares a checkout, as Prepare does, and calls f with it, with room on the disk: see WithRoom.
// If f succeeds it has taken over the Checkout. If it fails because layers turn out to be lost, WithCheckout
// removes their records and tries once more. A failed f must not leave anything behind.
func (c *Clone) WithCheckout(ctx context.Context, s Spec, known *remote.Answer, f func(*Checkout) error) error {
	release, err := c.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	for tried := false; ; tried = true {
		co, err := c.prepareUsed(ctx, s, known, attempt{began: c.m.Now()})
		if err != nil {
			return err
		}
		if err = c.WithRoom(ctx, FewFiles, func() error { return f(co) }); err == nil {
			return nil
		}
		co.Release()
		if tried {
			return err
		}
		if healed, healErr := c.Trees.Heal(ctx); !healed || healErr != nil {
			return err
		}
		known = nil // that was some time ago
	}
}

// attempt says how prepare makes a checkout.
type attempt struct {
	began  time.Time // when Prepare was called
	ahead  bool      // for a later Mount: see Ready and Warm
	spare  bool      // it is no use of the clone
	settle bool      // the ref may have moved since it was resolved
}

// prepareUsed is Prepare for a caller that uses the clone.
func (c *Clone) prepareUsed(ctx context.Context, s Spec, known *remote.Answer, how attempt) (*Checkout, error) {
	if err := c.Sweep(ctx); err != nil {
		return nil, err
	}
	healed, fetched := false, 0
	for try := 0; ; try++ {
		before, there := c.Remote.Store(s.History)
		if s.ColdShallow && !there {
			return c.prepareCold(ctx, s, known, how)
		}
		how.settle = fetched >= settleAfter
		co, err := c.prepare(ctx, s, known, how)
		switch {
		case errors.Is(err, remote.ErrColdEnded):
			return nil, err
		case errors.Is(err, remote.ErrFetched) && try < resolveTries:
			fetched++
			known = nil // it may be older than the fetch
			continue
		case err != nil && there && try < resolveTries && !sameStore(c.Remote, s.History, before):
			// Another Prepare has set the damaged store aside: the error is about that
			// store.
			continue
		case err != nil && !healed && (giterror.KindOf(err) == giterror.KindCorrupt || c.Remote.StoreLost(s.Source)):
			var healErr error
			if healed, healErr = c.Remote.HealStore(ctx, s.Source); healErr != nil {
				return nil, errors.Join(err, healErr)
			}
			if healed {
				known = nil // the store that had a newer answer, maybe, is gone
				continue
			}
		}
		return co, err
	}
}

// sameStore reports whether the store of a history is still the one of an earlier record.
func sameStore(r *remote.Remote, h volume.History, before meta.Store) bool {
	now, ok := r.Store(h)
	return ok && now.ClonedAt.Equal(before.ClonedAt)
}

// Refresh resolves s.Ref and fetches missing objects, as Prepare does, but builds nothing.
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

// prepare is one try of Prepare or Ready.
func (c *Clone) prepare(ctx context.Context, s Spec, known *remote.Answer, how attempt) (*Checkout, error) {
	settle := how.settle
	resolved := phase.Begin(ctx, phase.Resolve)
	defer resolved()
	r, a, err := c.Remote.Resolve(ctx, s.Source, known)
	if err != nil {
		return nil, err
	}
	fetch, err := c.Remote.Align(ctx, s.Source, a)
	if err != nil && !(settle && errors.Is(err, remote.ErrFetched)) {
		return nil, err
	}
	if fetch && how.ahead && !settle && c.Remote.FetchOthersNow(ctx, s.Source, *a) {
		return nil, remote.ErrFetched // they belong to the git layer
	}
	defer c.Trees.HoldCommit(r.Commit)()
	resolved()
	defer phase.Begin(ctx, phase.Build)()
	for try := 0; ; try++ {
		store, _ := c.Remote.Store(s.History)
		begun := c.Trees.BeginGitLayer(ctx, s, r, store)
		tree, err := c.Trees.Tree(ctx, s, r.Commit)
		begun()
		if err != nil {
			return nil, err
		}
		store, _ = c.Remote.Store(s.History)
		if now, ok := store.Refs[s.Ref.String()]; ok && now.Commit != r.Commit && !settle {
			return nil, remote.ErrFetched
		}
		gitLayer, err := c.Trees.GitLayer(ctx, s, r, store, tree.Modules)
		if settle && errors.Is(err, remote.ErrFetched) && try < settleTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		if co := c.hold(r, store.Head, tree, gitLayer, how); co != nil {
			if fetch && !how.ahead {
				// Last, because it holds the lock for long.
				c.Remote.FetchOthers(ctx, s.Source, *a)
			}
			return co, nil
		}
		// One of them was collected meanwhile: build it again.
	}
}

// hold holds the two layers. It returns nil if one of them is gone.
func (c *Clone) hold(r meta.Resolution, head string, tree, gitLayer meta.Layer, how attempt) *Checkout {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Trees.HoldKnown(tree, gitLayer) {
		return nil
	}
	if !how.spare {
		c.touchLocked(tree, gitLayer)
	}
	return &Checkout{
		Resolution: r, Default: head, Tree: tree, GitLayer: gitLayer,
		Lower:   c.Trees.Lower(tree.Chain, gitLayer.ID),
		Reused:  !c.rec.FirstMount.IsZero() && c.rec.FirstMount.Before(how.began),
		release: func() { c.Trees.Drop(tree.Chain, gitLayer.ID) },
	}
}
