package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// Request is a request for a new workspace and its first lease.
type Request struct {
	Lease   Lease
	Options volume.Options
	Clone   *clone.Clone
	// Checkout is what the workspace begins with; nil if the options have a From.
	Checkout *clone.Checkout
	// Limit is the most that the container may write, zero for no limit.
	Limit disk.Size
}

// Open makes a workspace, mounts it and gives it its first lease. If another Open was
// faster, the lease is added to the workspace that the volume shares or keeps. On success
// Open takes over the Checkout's references to the layers. An error leaves nothing behind. If the checkpoint that it is
// to begin with does not exist any more, the error is a *NoCheckpointError.
func (m *Manager) Open(ctx context.Context, r Request) (meta.Workspace, error) {
	if r.Options.Mode != volume.ModePrivate {
		unlock, err := m.volumes.Lock(ctx, r.Lease.Volume)
		if err != nil {
			return meta.Workspace{}, err
		}
		defer unlock()
		if rec, ok, err := m.joinLocked(ctx, r.Lease); ok || err != nil {
			if err == nil && r.Checkout != nil {
				r.Checkout.Release()
			}
			return rec, err
		}
	}
	rec := m.newRecord(ctx, r)
	rec.Leases = meta.Leases{r.Lease.ID}
	w := newWorkspace(rec.ID, r.Clone)
	err := m.mountNew(ctx, w, &rec, r)
	if err != nil {
		return meta.Workspace{}, err
	}
	failpoint.Hit("workspace/open/bound")
	if err = m.records.handOut(rec); err == nil {
		put, undo := r.Clone.FirstMount()
		if err = m.config.DB.Update(func(tx *meta.Tx) error { return errors.Join(tx.PutWorkspace(rec), put(tx)) }); err != nil {
			undo()
		}
		failpoint.Hit("workspace/open/recorded")
	}
	if err != nil {
		return meta.Workspace{}, errors.Join(err, m.undoNew(ctx, w, rec))
	}
	m.records.put(w, rec)
	if len(rec.From) > 0 {
		m.config.observe(ctx, Event{Step: StepBegun, Record: rec})
	}
	return rec, nil
}

// newRecord returns the record of a new workspace, without a lease and what it stands on.
func (m *Manager) newRecord(ctx context.Context, r Request) meta.Workspace {
	return meta.Workspace{
		ID: newID(), Mode: string(r.Options.Mode), Clone: r.Clone.Key, Volume: r.Lease.Volume, VolumeID: origin.Of(ctx).VolumeID,
		UID: r.Options.UID, GID: r.Options.GID, Options: r.Options.Map(),
		Boot: m.config.Boot, MountedAt: m.config.Now(), Limit: r.Limit,
	}
}

func newID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// warmPaths returns the warm paths of a new workspace, with references to their layers. A
// failure does not fail the Mount, because a workspace can begin without warm layers. The
// error is ctx's.
func (m *Manager) warmPaths(ctx context.Context, r Request) ([]meta.WarmPath, error) {
	paths := r.Options.Warm.Paths()
	if len(paths) == 0 {
		return m.withCache(ctx, r, nil)
	}
	taken, err := m.config.Warm.Select(ctx, wantOf(r.Options, r.Checkout))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		m.config.Log.WithContext(ctx).WithError(err).WithField("volume", r.Lease.Volume).Warn("look for warm layers: the workspace begins without")
		for _, p := range paths {
			taken = append(taken, meta.WarmPath{Path: p, LeftOut: leftByError})
		}
	}
	return m.withCache(ctx, r, taken)
}

// wantOf describes a new workspace of a checkout to those who choose its warm layers.
func wantOf(o volume.Options, co *clone.Checkout) warm.Want {
	return warm.Want{
		Clone: clone.Key(o.Subject, o.Repo), Paths: o.Warm.Paths(), UID: o.UID, GID: o.GID,
		Ref: co.Resolution.Ref, Default: co.Default, Text: o.WarmKey,
		Files: o.WarmFiles.Paths(), Exact: o.WarmExact,
		Tree: co.Lower, Built: co.Tree,
	}
}

// WarmStates returns what a Mount of a volume with these options finds at its warm paths, given its checkout.
func (m *Manager) WarmStates(ctx context.Context, o volume.Options, co *clone.Checkout) ([]warm.State, error) {
	return m.config.Warm.States(ctx, wantOf(o, co))
}

// leftByError says that a workspace lacks something. Containers read it.
const leftByError = "an error: the log says which"

// withCache adds the cache to the warm paths of a new workspace, if its volume has one, with references to its layers.
func (m *Manager) withCache(ctx context.Context, r Request, paths []meta.WarmPath) ([]meta.WarmPath, error) {
	if r.Options.Cache == volume.CacheOff {
		return paths, nil
	}
	p, err := m.config.Warm.Cache(ctx, r.Clone.Key, r.Options.UID, r.Options.GID)
	switch {
	case err != nil && ctx.Err() != nil:
		m.config.Warm.Drop(r.Clone.Key, paths)
		return nil, context.Cause(ctx)
	case err != nil:
		m.config.Log.WithContext(ctx).WithError(err).WithField("volume", r.Lease.Volume).Warn("look for the cache: the workspace begins without")
		p = meta.WarmPath{Path: cache.Mount, LeftOut: leftByError}
	}
	return append(paths, p), nil
}

// mountNew completes the record of a new workspace and mounts it, on a checkout or on a checkpoint. After an error nothing
// is left.
func (m *Manager) mountNew(ctx context.Context, w *workspace, rec *meta.Workspace, r Request) (err error) {
	if r.Options.From == "" {
		if err = m.standOnCheckout(ctx, w, rec, r); err != nil {
			return err
		}
		err = m.mounter.MountNew(ctx, *rec, r.Clone, r.Checkout)
	} else {
		if err = m.standOnCheckpoint(ctx, w, rec, r.Options.From); err != nil {
			return err
		}
		rec.NoHelper, err = m.mounter.MountFrom(ctx, *rec, r.Clone)
	}
	if err != nil {
		err = errors.Join(err, m.undoNew(ctx, w, *rec))
	}
	return err
}

// undoNew removes a workspace that nobody has got.
func (m *Manager) undoNew(ctx context.Context, w *workspace, rec meta.Workspace) error {
	m.config.Handout.End(rec.ID)
	err := errors.Join(m.mounter.RemoveNew(ctx, rec), m.mounter.Unlimit(rec))
	if len(rec.From) > 0 {
		m.config.dropLayers(w, rec)
	} else { // the caller has those of the checkout
		m.config.Warm.Drop(rec.Clone, rec.Warm)
	}
	m.records.drop(w)
	m.reaper.freed(ctx, rec.From...)
	return err
}

// standOnCheckout completes the record of a new workspace on a checkout, whose layers the caller holds.
func (m *Manager) standOnCheckout(ctx context.Context, w *workspace, rec *meta.Workspace, r Request) (err error) {
	co, res := r.Checkout, r.Checkout.Resolution
	rec.Tree, rec.Chain, rec.GitLayer, rec.Metacopy = co.Tree.ID, co.Tree.Chain, co.GitLayer.ID, m.config.Features.Metacopy
	rec.Ref, rec.Commit, rec.Pulled, rec.Reused, rec.Stale, rec.Shallow, rec.Missing = res.Ref, res.Commit, res.Pulled, co.Reused, res.Stale, co.Shallow, co.Tree.Missing
	if rec.Warm, err = m.warmPaths(ctx, r); err != nil {
		return err
	}
	if err := m.putNew(w, rec); err != nil {
		m.config.Warm.Drop(rec.Clone, rec.Warm)
		return err
	}
	return nil
}

// maxFrom is how many checkpoints a workspace may stand on: the kernel looks each name up in all of them, so that a git
// status of 40,000 files takes twice as long on sixty. Merges keep chains below that (flattenAt), unless they fail, or
// checkpoints are made faster than that.
const maxFrom = 32

// standOnCheckpoint completes the record of a new workspace on a checkpoint of the same clone, and holds what that stands on.
func (m *Manager) standOnCheckpoint(ctx context.Context, w *workspace, rec *meta.Workspace, id string) error {
	of, err := m.records.lookUp(id)
	if err != nil {
		return err
	}
	if m.records.get(of).Clone == rec.Clone {
		if err := m.reaper.awaitFlat(ctx, of); err != nil {
			return err
		}
	}
	unlock, err := m.records.locks.Lock(ctx, id) // it is not evicted before the new workspace is known to stand on it
	if err != nil {
		return err
	}
	defer unlock()
	left := m.records.get(of)
	switch {
	case m.records.gone(of), left.Clone != rec.Clone:
		return &NoCheckpointError{ID: id}
	}
	if err := cmp.Or(isCheckpoint(left), m.mounter.Complete(w.clone, left)); err != nil {
		return &RefusedError{fmt.Errorf("begin with checkpoint %q: %w", id, err)}
	}
	rec.StandLike(left)
	rec.From, rec.OnMerged, rec.Reused = append([]string{id}, left.From...), left.OnMerged || len(left.Merged) > 0, true
	m.config.holdLayers(w, *rec)
	if err := m.putNew(w, rec); err != nil {
		m.config.dropLayers(w, *rec)
		return err
	}
	return nil
}
