package workspace

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/overlay"
)

// When the engine and the plugin are killed together, the next start finds all
// overlays mounted and all leases in the records, and the engine sends no Unmount for
// the containers that it then ends. Only the mounts tell this case from the death of
// the plugin alone. So a lease of an earlier process is valid only while a container
// has the workspace (Config.Doubt).
//
// With live-restore the plugin outlives the engine. The next engine sends no Unmount for
// containers that ended meanwhile, so it inherits leases as a process does.

const (
	// verifyWait is how long a Mount waits until the mounts of a container that the
	// engine just ended are gone: the kernel removes them a moment after the end.
	verifyWait  = 500 * time.Millisecond
	verifyPause = 50 * time.Millisecond
	// verifyFirst and verifyLast bound the waits between two checks of all inherited
	// leases. Each wait is three times as long as the one before, because an engine that
	// starts may take minutes to end its containers (--stop-timeout).
	verifyFirst = 10 * time.Second
	verifyLast  = 15 * time.Minute
)

// InheritLeases notes that an engine connected that may be another one than before: it
// inherits all leases. InheritLeases returns them, with the lost leases of workspaces that
// are still in use. news reports whether Verify has something to do.
func (m *Manager) InheritLeases() (leases []Lease, news bool) {
	if !m.config.Doubt {
		return nil, false
	}
	m.records.each(func(w *workspace) {
		for _, id := range w.rec.Leases {
			leases = append(leases, Lease{w.rec.Volume, id})
			if _, ok := w.inherited[id]; !ok {
				// No wait: a container that ended while the engine was away ended long ago.
				w.inherited[id] = true
				news = true
			}
		}
		for _, id := range w.rec.Lost {
			leases = append(leases, Lease{w.rec.Volume, id})
		}
	})
	return leases, news
}

// verify is called before a Mount of a lease is answered. If the lease is inherited and no
// container has the workspace any more, the workspace loses all inherited leases. If the
// kernel can't tell, a workspace whose leases are all inherited and of one holder loses
// them and is unmounted, because the kernel can tell then whether the workspace is free.
func (m *Manager) verify(ctx context.Context, l Lease) error {
	w, wait := m.records.doubtful(l)
	if w == nil {
		return nil
	}
	held, err := m.heldAfter(ctx, w, wait)
	switch {
	case errors.Is(err, overlay.ErrUnknown):
		rec := m.records.get(w)
		holder, _ := meta.HolderOf(l.ID)
		if own, _ := m.records.ownLeases(w, rec); len(own) > 0 || len(rec.Leases.Of(holder)) < len(rec.Leases) {
			return nil
		}
		return m.loseInherited(ctx, w, true)
	case errors.Is(err, overlay.ErrNotMounted), errors.Is(err, fs.ErrNotExist):
		return nil // Lookup finds that the overlay is gone
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil: // the lease stays valid
		m.config.Log.WithContext(ctx).WithError(err).WithField("volume", l.Volume).Warn("ask whether a container still has its workspace")
		return nil
	case held:
		return nil
	}
	return m.loseInherited(ctx, w, false)
}

// doubtful returns the workspace of an inherited lease, and how long the first Mount waits
// until no container has it; later ones do not wait. It returns nil for any other lease.
func (r *records) doubtful(l Lease) (w *workspace, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w = r.leases[l]; w == nil {
		return nil, 0
	}
	switch asked, ok := w.inherited[l.ID]; {
	case !ok:
		return nil, 0
	case !asked:
		w.inherited[l.ID], wait = true, verifyWait
	}
	return w, wait
}

// Verify runs after the start of this process or of the engine. It removes the inherited
// leases of workspaces that no container has, at growing intervals, until no inherited
// lease is left, the last interval is over, or ctx ends.
func (m *Manager) Verify(ctx context.Context) {
	for wait := verifyFirst; wait <= verifyLast; wait *= 3 {
		if sleep(ctx, wait) != nil || !m.verifyInherited(ctx) {
			return
		}
	}
}

// verifyInherited checks all workspaces with inherited leases, and reports whether there
// were any.
func (m *Manager) verifyInherited(ctx context.Context) bool {
	var all []*workspace
	m.records.each(func(w *workspace) {
		if len(w.inherited) > 0 {
			all = append(all, w)
		}
	})
	for _, w := range all {
		m.verifyWorkspace(ctx, w, 0)
	}
	return len(all) > 0
}

// verifyWorkspace verifies all inherited leases of a workspace, while no Mount waits.
func (m *Manager) verifyWorkspace(ctx context.Context, w *workspace, wait time.Duration) {
	ctx = origin.ForVolume(ctx, m.records.get(w).VolumeID)
	held, err := m.heldAfter(ctx, w, wait)
	if err == nil && !held {
		err = m.loseInherited(ctx, w, false)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, overlay.ErrUnknown) {
		m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", w.id).Debug("ask whether a container has a workspace")
	}
}

// heldAfter reports whether a container has a workspace that is mounted. It asks again
// until the answer is no, or wait is over.
func (m *Manager) heldAfter(ctx context.Context, w *workspace, wait time.Duration) (bool, error) {
	for waited := time.Duration(0); ; waited += verifyPause {
		n, err := m.copies(m.Mountpoint(m.records.get(w)), overlay.PointsDir(m.config.Root))
		if err != nil || n == 0 || waited >= wait {
			return n > 0, err
		}
		if err := sleep(ctx, verifyPause); err != nil {
			return false, err
		}
	}
}

// loseInherited removes the inherited leases of a workspace. A workspace without leases
// ends then, unless its volume keeps it. A kept workspace without leases is unmounted if
// unmount is set.
func (m *Manager) loseInherited(ctx context.Context, w *workspace, unmount bool) error {
	unlock, err := m.lockJoins(m.records.get(w))
	if err != nil {
		return err
	}
	defer unlock()
	const why = "no container has the workspace that an earlier start mounted: these leases are lost"
	return m.loseLeases(ctx, w, why, func(rec *meta.Workspace) {
		switch own, inherited := m.records.ownLeases(w, *rec); {
		case len(inherited) == 0:
		case len(own) > 0 || rec.Kept() && !unmount:
			rec.Leases = own
		default:
			unmounted(rec)
		}
	})
}

// ownLeases separates the leases in a record of a workspace from those that are inherited.
func (r *records) ownLeases(w *workspace, rec meta.Workspace) (own, inherited meta.Leases) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range rec.Leases {
		if _, ok := w.inherited[id]; ok {
			inherited = append(inherited, id)
		} else {
			own = append(own, id)
		}
	}
	return own, inherited
}
