package workspace

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// Retain counts one more Mount of a lease that is there already, as `docker cp`
// on a running container makes it. ok is false when there is none, or when what it
// leased is no longer mounted, or no container has it any more: then Join or Open is
// to give it another workspace. But while the container of a private workspace that
// has lost this lease still has it, the error is ErrHeld, and rec that workspace's.
func (m *Manager) Retain(ctx context.Context, volume, leaseID string) (rec meta.Workspace, ok bool, err error) {
	l := lease{volume, leaseID}
	if err := m.verify(ctx, l); err != nil {
		return meta.Workspace{}, false, err
	}
	if w := m.leased(l); w != nil {
		rec = m.record(w)
		mounted, err := overlay.Mounted(m.Mountpoint(rec))
		if err == nil && !mounted && isPrivate(rec) { // Join does it for the others, under their lock
			err = m.lose(w)
		}
		if err == nil && mounted {
			rec, err = m.change(w, func(rec *meta.Workspace) error {
				if ok = rec.Leases[leaseID] > 0; ok { // nobody has ended it meanwhile
					rec.Leases[leaseID]++
				}
				return nil
			}, nil)
		}
		if err != nil || ok {
			return rec, ok, err
		}
	}
	m.mu.Lock()
	orphan := m.orphans[l]
	m.mu.Unlock()
	if orphan == nil {
		return meta.Workspace{}, false, nil
	}
	rec = m.record(orphan)
	return rec, false, m.waitFree(ctx, rec)
}

// leased returns the workspace of a lease; nil if there is none.
func (m *Manager) leased(l lease) *workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leases[l]
}

// lost takes from the record of a mounted workspace its leases, because its overlay is
// gone: their containers, if they still run, kept it, and nobody will get it again. The
// workspace has ended, unless its volume keeps it.
func lost(rec *meta.Workspace, kept bool, now time.Time) {
	rec.Orphan = rec.Mode == string(volume.ModeShared) && len(rec.Leases) > 0
	if isPrivate(*rec) {
		rec.Lost = slices.Sorted(maps.Keys(rec.Leases))
	}
	rec.Leases, rec.Phase = nil, meta.Parked
	if !kept {
		rec.Phase, rec.EndedAt = meta.Ended, now
	}
}

// lose commits that a workspace is no longer mounted. A caller holds the volume's
// lock, unless the workspace is private.
func (m *Manager) lose(w *workspace) error {
	leases := 0
	rec, err := m.change(w, func(rec *meta.Workspace) error {
		leases = len(rec.Leases)
		lost(rec, isKept(*rec), m.Now())
		return nil
	}, nil)
	if err != nil {
		return err
	}
	m.Log.WithFields(logrus.Fields{"volume": rec.Volume, "workspace": rec.ID, "leases": leases}).Warn("a workspace is no longer mounted: its leases are lost")
	if rec.Phase == meta.Ended {
		m.reapSoon(w, func() {})
	}
	return nil
}

// Release takes back one Mount of a lease. With the last one the workspace has
// ended and is detached, unless the volume keeps it. A lease that is not known was
// released already.
func (m *Manager) Release(name, leaseID string) error {
	m.mu.Lock()
	w, ok := m.leases[lease{name, leaseID}]
	private := ok && isPrivate(w.rec)
	m.mu.Unlock()
	if !ok {
		return nil
	}
	unlock, err := m.lockJoins(name, private)
	if err != nil {
		return err
	}
	defer unlock()
	rec := m.record(w)
	if len(rec.Leases) > 1 || rec.Leases[leaseID] > 1 || isKept(rec) {
		rec, err := m.change(w, func(rec *meta.Workspace) error {
			if rec.Leases[leaseID]--; rec.Leases[leaseID] <= 0 {
				delete(rec.Leases, leaseID)
			}
			return nil
		}, nil)
		if err == nil && m.onlyInherited(rec) {
			m.Clones.Background(func(ctx context.Context) { m.verifyLater(ctx, w, m.HeldWait) })
		}
		return err
	}
	return m.end(w, nil)
}

// end commits that a live workspace has ended, together with what with does, if it is
// not nil, and then detaches it: after an error it is leased and mounted as before,
// and end may be called again.
func (m *Manager) end(w *workspace, with func(*meta.Tx) error) error {
	rec, err := m.change(w, func(rec *meta.Workspace) error {
		rec.Phase, rec.EndedAt, rec.Leases = meta.Ended, m.Now(), nil
		return nil
	}, with)
	failpoint.Hit("workspace/release/recorded")
	if err != nil {
		return err
	}
	if w.clone != nil {
		w.clone.Touch()
	}
	release := m.detachEnded(rec)
	failpoint.Hit("workspace/release/detached")
	m.reapSoon(w, release)
	return nil
}

// lockJoins keeps everybody from joining a workspace of a volume until unlock, because
// it may be about to end. Nobody joins a private one.
func (m *Manager) lockJoins(volume string, private bool) (unlock func(), err error) {
	if private {
		return func() {}, nil
	}
	return m.volumes.Lock(context.Background(), volume)
}

// detachEnded is detach of a workspace that has ended. When it fails, the reaper tries
// again.
func (m *Manager) detachEnded(rec meta.Workspace) (release func()) {
	release, err := m.detach(rec)
	if err != nil {
		m.Log.WithError(err).WithField("workspace", rec.ID).Warn("detach a workspace that has ended")
		return func() {}
	}
	return release
}
