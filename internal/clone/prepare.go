package clone

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/internal/work/phase"
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

// Prepare resolves s.Ref, fetches missing objects, builds missing layers and holds them.
// It asks the remote, unless s.Since or s.Refresh spares the question. With s.ColdShallow it
// does not wait for the first fetch of the full history. If ctx ends first, the error is its
// cause, and the work continues in the background. It is for work ahead of a Mount, which calls WithCheckout.
func (c *Clone) Prepare(ctx context.Context, s Spec) (co *Checkout, err error) {
	err = c.prepare(ctx, s, true, func(ready *Checkout) error {
		co = ready
		return nil
	})
	return co, err
}

// WithCheckout prepares a checkout, as Prepare does, and calls f with it, with room on the disk: see WithRoom.
// If f succeeds it has taken over the Checkout. If it fails because layers turn out to be lost, WithCheckout
// removes their records and tries again. A failed f must not leave anything behind.
func (c *Clone) WithCheckout(ctx context.Context, s Spec, f func(*Checkout) error) error {
	return c.prepare(ctx, s, true, func(co *Checkout) error {
		err := c.WithRoom(ctx, FewFiles, func() error { return f(co) })
		if err == nil {
			return nil
		}
		co.Release()
		if healed, healErr := c.Trees.Heal(ctx); healed && healErr == nil {
			return remote.Again(err)
		}
		return err
	})
}

// prepare calls f with a checkout: a Snapshot of the remote, and layers that are built from it and held. Snapshot calls
// the function that builds them and calls f, again if something of that has gone meanwhile. use says whether that is a
// use of the clone.
func (c *Clone) prepare(ctx context.Context, s Spec, use bool, f func(*Checkout) error) error {
	began := c.m.config.Now()
	if use {
		release, err := c.Use(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := c.Sweep(ctx); err != nil {
		return err
	}
	return c.remote.Snapshot(ctx, s.Source, func(snap *remote.Snapshot) error {
		built := phase.Begin(ctx, phase.Build)
		layers, err := c.Trees.Build(ctx, snap, s)
		built()
		if err != nil {
			return err
		}
		return f(c.checkout(snap, layers, began, use))
	})
}

// checkout returns the checkout of held layers. It is a use of the clone, if use is set, by somebody who came when
// began says.
func (c *Clone) checkout(snap *remote.Snapshot, l tree.Layers, began time.Time, use bool) *Checkout {
	c.mu.Lock()
	defer c.mu.Unlock()
	if use {
		c.touchLocked(l.Tree, l.GitLayer)
	}
	return &Checkout{
		Resolution: snap.Resolution, Default: snap.Store.Head, Tree: l.Tree, GitLayer: l.GitLayer,
		Lower:  c.Trees.Lower(l.Tree.Chain, l.GitLayer.ID),
		Reused: !c.rec.FirstMount.IsZero() && c.rec.FirstMount.Before(began), Shallow: snap.History.Cold,
		release: l.Release,
	}
}

// Refresh resolves s.Ref and fetches missing objects, as Prepare does, but builds nothing.
func (c *Clone) Refresh(ctx context.Context, s Spec) (r meta.Resolution, err error) {
	release, err := c.Use(ctx)
	if err != nil {
		return r, err
	}
	defer release()
	if err := c.Sweep(ctx); err != nil {
		return r, err
	}
	s.Others = remote.OthersIgnored
	err = c.remote.Snapshot(ctx, s.Source, func(snap *remote.Snapshot) error {
		r = snap.Resolution
		return nil
	})
	return r, err
}
