package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// Request says which workspace Open makes, and for which lease.
type Request struct {
	Volume   string
	LeaseID  string
	Options  volume.Options
	Clone    *clone.Clone
	Checkout *clone.Checkout
}

// Open makes a workspace, mounts it and gives it its first lease; the workspace
// that the volume shares or keeps, if another Open was faster, gets one more. Open
// takes over the Checkout's hold on the layers when it succeeds. An error leaves
// nothing behind.
func (m *Manager) Open(ctx context.Context, r Request) (meta.Workspace, error) {
	if r.Options.Mode != volume.ModePrivate {
		unlock, err := m.volumes.Lock(ctx, r.Volume)
		if err != nil {
			return meta.Workspace{}, err
		}
		defer unlock()
		if rec, ok, err := m.joinLocked(ctx, r.Volume, r.LeaseID); ok || err != nil {
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
		ID: hex.EncodeToString(id[:]), Mode: string(r.Options.Mode), Clone: r.Clone.Key, Volume: r.Volume,
		Tree: r.Checkout.Tree.ID, Chain: r.Checkout.Tree.Chain, GitLayer: r.Checkout.GitLayer.ID,
		UID: r.Options.UID, GID: r.Options.GID, Options: r.Options.Map(), Metacopy: m.Features.Metacopy,
		Ref: res.Ref, Commit: res.Commit, Pulled: res.Pulled, Reused: r.Checkout.Reused, Stale: res.Stale,
		Leases: map[string]int{r.LeaseID: 1}, Boot: m.Clones.Boot, MountedAt: m.Now(),
	}
	warm, err := m.takeWarm(ctx, r)
	if err != nil {
		return meta.Workspace{}, err
	}
	if rec.Warm = warm; len(warm) > 0 {
		rec.Metacopy, rec.Redirects = false, m.Features.Metacopy
	}
	w := &workspace{id: rec.ID, rec: rec, clone: r.Clone}
	w.rec.Phase, w.rec.Leases = meta.Making, nil
	m.mu.Lock()
	m.all[rec.ID] = w // before its directory: the sweep leaves it alone
	m.mu.Unlock()

	err = m.make(ctx, rec, r)
	if err == nil {
		failpoint.Hit("workspace/open/bound")
		err = m.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
		failpoint.Hit("workspace/open/recorded")
	}
	if err != nil {
		err = errors.Join(err, m.unmake(rec))
		m.Warm.Drop(rec.Clone, rec.Warm)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.all, rec.ID)
		return meta.Workspace{}, err
	}
	m.showLocked(w, rec)
	return rec, nil
}

// unmake removes what make may have made.
func (m *Manager) unmake(rec meta.Workspace) error {
	release, err := m.detach(rec)
	if err != nil {
		return err
	}
	defer release()
	if _, err := m.Trash.Put(m.dir(rec), "workspace"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// detach takes a workspace's overlay out of the mount table, if it is there, and its
// mount point away. Tearing the overlay down, which takes as long as it is dirty, is
// left to release.
func (m *Manager) detach(rec meta.Workspace) (release func(), err error) {
	point := m.Mountpoint(rec)
	free, err := overlay.Detach(point)
	if err == nil || errors.Is(err, overlay.ErrNotMounted) {
		_ = os.Remove(point) // an empty directory that is left is nobody's
	}
	switch {
	case errors.Is(err, overlay.ErrNotMounted) || errors.Is(err, os.ErrNotExist):
		return func() {}, nil
	case err != nil:
		return nil, err
	}
	return func() {
		if err := free(); err != nil {
			m.Log.WithError(err).WithField("workspace", rec.ID).Warn("close a detached workspace")
		}
	}, nil
}
