package workspace

import (
	"context"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// Lookup returns the workspace of a lease. ok is false if the lease is unknown or no
// longer valid, or if its workspace is no longer mounted: then Join or Open gives the
// lease another workspace. If a private workspace has lost this lease and its container
// still uses it, the error is ErrHeld, and rec is that workspace's.
func (m *Manager) Lookup(ctx context.Context, l Lease) (rec meta.Workspace, ok bool, err error) {
	if err := m.verify(ctx, l); err != nil {
		return meta.Workspace{}, false, err
	}
	if w := m.records.leased(l); w != nil {
		rec = m.records.get(w)
		mounted, err := overlay.Mounted(m.Mountpoint(rec))
		if err == nil && !mounted && rec.Private() { // Join does that for the others, under the volume's lock
			err = m.loseLeases(ctx, w, vanished, unmounted)
		}
		if err != nil || mounted && rec.Leases.Has(l.ID) {
			return rec, err == nil, err
		}
	}
	lost := m.records.list(func(w *workspace) bool { return w.rec.Volume == l.Volume && slices.Contains(w.rec.Lost, l.ID) })
	if len(lost) == 0 {
		return meta.Workspace{}, false, nil
	}
	rec = lost[len(lost)-1]
	return rec, false, m.waitFree(ctx, rec)
}

// Add gives the workspace of a lease another lease of the same volume. ok is false if
// the lease is unknown.
func (m *Manager) Add(ctx context.Context, l Lease, another string) (rec meta.Workspace, ok bool, err error) {
	w := m.records.leased(l)
	if w == nil {
		return rec, false, nil
	}
	rec, err = m.records.change(ctx, w, func(rec *meta.Workspace) error {
		if ok = rec.Leases.Has(l.ID); ok { // it may have been released meanwhile
			rec.Leases = rec.Leases.With(another)
		}
		return nil
	}, nil)
	if err != nil && m.records.gone(w) {
		return rec, false, nil
	}
	return rec, ok && err == nil, err
}

// unmounted removes the leases from the record of a mounted workspace, because its overlay
// is gone. Containers that still run keep the overlay, and no other lease gets it.
func unmounted(rec *meta.Workspace) {
	rec.Orphan = rec.Mode == string(volume.ModeShared) && len(rec.Leases) > 0
	if rec.Private() {
		rec.Lost = rec.Leases
	}
	rec.Leases, rec.Phase = nil, meta.Parked
}

// vanished is why a workspace loses its leases if its overlay is gone.
const vanished = "a workspace is no longer mounted: its leases are lost"

// loseLeases is removeLeases for leases that were not released. It logs why they are lost.
// The caller holds the volume's lock, unless the workspace is private.
func (m *Manager) loseLeases(ctx context.Context, w *workspace, why string, f func(rec *meta.Workspace)) error {
	var before meta.Workspace
	rec, err := m.removeLeases(ctx, w, func(rec *meta.Workspace) error {
		before = *rec
		f(rec)
		return nil
	}, nil)
	if err != nil && m.records.gone(w) { // without its leases
		return nil
	}
	if n := len(before.Leases) - len(rec.Leases); err == nil && (n > 0 || before.Phase != rec.Phase) {
		m.config.Log.WithContext(ctx).WithFields(logrus.Fields{"volume": rec.Volume, "workspace": rec.ID, "leases": n}).Warn(why)
		if lost := slices.DeleteFunc(slices.Clone(before.Leases), rec.Leases.Has); len(lost) > 0 && m.config.LeasesLost != nil {
			m.config.LeasesLost(ctx, before, lost, why)
		}
	}
	return err
}

// Release ends a lease. The last one ends the workspace and detaches it, unless the
// volume keeps it. An unknown lease is not an error.
func (m *Manager) Release(ctx context.Context, l Lease) (rec meta.Workspace, err error) {
	w := m.records.leased(l)
	if w == nil {
		return meta.Workspace{}, nil
	}
	unlock, err := m.lockJoins(m.records.get(w))
	if err != nil {
		return m.records.get(w), err
	}
	defer unlock()
	rec, err = m.removeLeases(ctx, w, func(rec *meta.Workspace) error {
		rec.Leases = rec.Leases.Without(l.ID)
		return nil
	}, nil)
	if err != nil && m.records.gone(w) { // it lost the lease meanwhile
		return meta.Workspace{}, nil
	}
	if err != nil {
		return rec, err
	}
	if rec.Kept() && len(rec.Leases) == 0 {
		m.meter.upperSoon(w)
	}
	if own, inherited := m.records.ownLeases(w, rec); len(own) == 0 && len(inherited) > 0 {
		m.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) { m.verifyWorkspace(ctx, w, m.config.HeldWait) }))
	}
	return rec, nil
}

// removeLeases calls f to remove leases from a workspace's record, and commits the result
// as change does, unless f fails. A workspace without leases ends then, unless its volume keeps it. If
// the new phase is not mounted, the workspace is detached. If the commit fails, the
// workspace is leased and mounted as before, and removeLeases may be called again.
func (m *Manager) removeLeases(
	ctx context.Context, w *workspace, f func(rec *meta.Workspace) error, with func(*meta.Tx) error,
) (meta.Workspace, error) {
	rec, err := m.records.change(ctx, w, func(rec *meta.Workspace) error {
		if err := f(rec); err != nil {
			return err
		}
		m.endUnleased(rec)
		return nil
	}, with)
	return m.released(ctx, w, rec, err)
}

// released does what follows a commit of leases that were removed: it publishes, or detaches what is no longer
// mounted. err is that of the commit.
func (m *Manager) released(ctx context.Context, w *workspace, rec meta.Workspace, err error) (meta.Workspace, error) {
	if err == nil && rec.Kept() && rec.Phase != meta.Ended && len(rec.Leases) == 0 {
		m.publisher.soon(ctx, w)
	}
	if err != nil || rec.Phase == meta.Mounted {
		return rec, err
	}
	failpoint.Hit("workspace/release/recorded")
	release, err := m.mounter.Detach(ctx, rec)
	if rec.Phase != meta.Ended {
		release()
		return rec, err
	}
	if w.clone != nil {
		w.clone.Touch()
	}
	failpoint.Hit("workspace/release/detached")
	m.reaper.start(ctx, w, release) // the reaper detaches it if that failed
	return rec, nil
}

// endUnleased changes a record: a workspace without leases ends, unless its volume keeps it.
func (m *Manager) endUnleased(rec *meta.Workspace) {
	if rec.Phase.Live() && len(rec.Leases) == 0 && !rec.Kept() {
		m.ended(rec)
	}
}

// ended changes a record: the workspace ends now.
func (m *Manager) ended(rec *meta.Workspace) {
	rec.Phase, rec.EndedAt, rec.Leases = meta.Ended, m.config.Now(), nil
}

// end is ended for removeLeases.
func (m *Manager) end(rec *meta.Workspace) error {
	m.ended(rec)
	return nil
}

// lockJoins prevents a Join of a workspace until unlock, because the workspace may be
// about to end. A private workspace can't be joined, so it needs no lock.
func (m *Manager) lockJoins(rec meta.Workspace) (unlock func(), err error) {
	if rec.Private() {
		return func() {}, nil
	}
	return m.volumes.Lock(context.Background(), rec.Volume)
}
