package workspace

import (
	"context"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Retain counts one more Mount of a lease that is there already, as `docker cp`
// on a running container makes it.
func (m *Manager) Retain(volume, leaseID string) (rec meta.Workspace, ok bool, err error) {
	m.mu.Lock()
	w, ok := m.leases[lease{volume, leaseID}]
	m.mu.Unlock()
	if !ok {
		return meta.Workspace{}, false, nil
	}
	rec, err = m.change(w, func(rec *meta.Workspace) { rec.Leases[leaseID]++ }, nil)
	return rec, true, err
}

// Release takes back one Mount of a lease. With the last one the workspace has
// ended and is detached, unless the volume keeps it. A lease that is not known was
// released already.
func (m *Manager) Release(name, leaseID string) error {
	m.mu.Lock()
	w, ok := m.leases[lease{name, leaseID}]
	private := ok && w.rec.Mode == string(volume.ModePrivate)
	m.mu.Unlock()
	if !ok {
		return nil
	}
	if !private { // so that nobody joins what is being left
		unlock, err := m.volumes.Lock(context.Background(), name)
		if err != nil {
			return err
		}
		defer unlock()
	}
	rec := m.record(w)
	if len(rec.Leases) > 1 || rec.Leases[leaseID] > 1 || isKept(rec) {
		_, err := m.change(w, func(rec *meta.Workspace) {
			if rec.Leases[leaseID]--; rec.Leases[leaseID] <= 0 {
				delete(rec.Leases, leaseID)
			}
		}, nil)
		return err
	}
	return m.end(w, nil)
}

// end detaches a workspace and commits that it has ended, together with what with
// does, if it is not nil. After an error it may be called again.
func (m *Manager) end(w *workspace, with func(*meta.Tx) error) error {
	release, err := m.detach(m.record(w))
	if err != nil {
		return err
	}
	failpoint.Hit("workspace/release/detached")
	// That it has ended is said before anything is taken away.
	_, err = m.change(w, func(rec *meta.Workspace) {
		rec.State, rec.EndedAt, rec.Leases = meta.Ended, m.Now(), nil
	}, with)
	failpoint.Hit("workspace/release/recorded")
	if err != nil {
		m.Clones.Background(func(context.Context) { release() })
		return err
	}
	if w.clone != nil {
		w.clone.Touch()
	}
	m.reapSoon(w, release)
	return nil
}
