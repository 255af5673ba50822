package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/warm"
)

// Request is a request for a new workspace and its first lease.
type Request struct {
	Lease    Lease
	Options  volume.Options
	Clone    *clone.Clone
	Checkout *clone.Checkout
}

// Open makes a workspace, mounts it and gives it its first lease. If another Open was
// faster, the lease is added to the workspace that the volume shares or keeps. On success
// Open takes over the Checkout's references to the layers. An error leaves nothing behind.
func (m *Manager) Open(ctx context.Context, r Request) (meta.Workspace, error) {
	if r.Options.Mode != volume.ModePrivate {
		unlock, err := m.volumes.Lock(ctx, r.Lease.Volume)
		if err != nil {
			return meta.Workspace{}, err
		}
		defer unlock()
		if rec, ok, err := m.joinLocked(ctx, r.Lease); ok || err != nil {
			if err == nil {
				r.Checkout.Release()
			}
			return rec, err
		}
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	res := r.Checkout.Resolution
	rec := meta.Workspace{
		ID: hex.EncodeToString(id[:]), Mode: string(r.Options.Mode), Clone: r.Clone.Key, Volume: r.Lease.Volume, VolumeID: origin.Of(ctx).VolumeID,
		Tree: r.Checkout.Tree.ID, Chain: r.Checkout.Tree.Chain, GitLayer: r.Checkout.GitLayer.ID,
		UID: r.Options.UID, GID: r.Options.GID, Options: r.Options.Map(), Metacopy: m.Features.Metacopy,
		Ref: res.Ref, Commit: res.Commit, Pulled: res.Pulled, Reused: r.Checkout.Reused, Stale: res.Stale, Shallow: r.Checkout.Shallow,
		Leases: meta.Leases{r.Lease.ID}, Boot: m.Clones.Boot, MountedAt: m.Now(),
	}
	var err error
	if rec.Warm, err = m.warmPaths(ctx, r); err != nil {
		return meta.Workspace{}, err
	}
	if len(rec.Warm) > 0 {
		rec.Metacopy, rec.Redirects = false, m.Features.Metacopy
	}
	w, making := newWorkspace(rec.ID, r.Clone), rec
	making.Phase, making.Leases = meta.Making, nil
	m.records.put(w, making) // before its directory: the sweep leaves it alone

	err = m.mounter.MountNew(ctx, rec, r.Clone, r.Checkout)
	if err == nil {
		failpoint.Hit("workspace/open/bound")
		err = m.records.handOut(rec)
	}
	if err == nil {
		err = m.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
		failpoint.Hit("workspace/open/recorded")
	}
	if err != nil {
		m.Handout.End(rec.ID)
		err = errors.Join(err, m.mounter.RemoveNew(ctx, rec))
		m.Warm.Drop(rec.Clone, rec.Warm)
		m.records.drop(w)
		return meta.Workspace{}, err
	}
	m.records.put(w, rec)
	return rec, nil
}

// warmPaths returns the warm paths of a new workspace, with references to their layers. A
// failure does not fail the Mount, because a workspace can begin without warm layers. The
// error is ctx's.
func (m *Manager) warmPaths(ctx context.Context, r Request) ([]meta.WarmPath, error) {
	paths := r.Options.Warm.Paths()
	if len(paths) == 0 {
		return nil, nil
	}
	taken, err := m.Warm.Select(ctx, warm.Want{
		Clone: r.Clone.Key, Paths: paths, UID: r.Options.UID, GID: r.Options.GID,
		Ref: r.Checkout.Resolution.Ref, Default: r.Checkout.Default, Text: r.Options.WarmKey,
		ReadOnly: r.Options.Cache == volume.CacheReadonly, Tree: r.Checkout.Lower,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		m.Log.WithContext(ctx).WithError(err).WithField("volume", r.Lease.Volume).Warn("look for warm layers: the workspace begins without")
		for _, p := range paths {
			taken = append(taken, meta.WarmPath{Path: p, LeftOut: "an error: the log says which"})
		}
	}
	return taken, nil
}
