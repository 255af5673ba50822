package workspace

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// When the engine and the plugin are killed together, the next start finds all
// overlays mounted and all leases in the records, and no Unmount will come for the
// containers that the engine then ends. Nothing but the mounts tells that from the
// death of the plugin alone: so a lease of an earlier process is believed only while
// a container has the workspace (Config.Doubt).
//
// With live-restore the plugin outlives the engine. The next one sends no Unmount for
// containers that have ended meanwhile, so it inherits leases as a process does.

// inheritance is what of a lease an earlier process, or an earlier engine, has given.
type inheritance struct {
	mounts int  // that were answered
	asked  bool // a Mount was, or need not be: the container lived
}

const (
	// verifyWait is how long a Mount waits for the mounts of a container that the
	// engine has just ended: they go a moment after it.
	verifyWait  = 500 * time.Millisecond
	verifyPause = 50 * time.Millisecond
	// verifyFirst and verifyLast bound the waits, each three times as long as the one
	// before, after which all that is inherited is looked at. An engine that starts
	// may take minutes to end its containers (--stop-timeout).
	verifyFirst = 10 * time.Second
	verifyLast  = 15 * time.Minute
)

// inherit notes the leases of a record that was read at the start.
func (m *Manager) inherit(rec meta.Workspace) {
	if !m.Doubt {
		return
	}
	for id, n := range rec.Leases {
		m.inherited[lease{rec.Volume, id}] = inheritance{mounts: n}
	}
}

// EngineStarted notes that an engine has taken this process up, for which it may be
// another one than before: it inherits all leases, and has counted none. It reports
// whether that is news of any, and Verify has something to do.
func (m *Manager) EngineStarted() bool {
	if !m.Doubt {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncounted = make(map[lease]bool)
	news := false
	for l, w := range m.leases {
		m.uncounted[l] = true
		if _, ok := m.inherited[l]; !ok {
			// Not to be waited for: it is long ago that a container ended while the engine was away.
			m.inherited[l] = inheritance{mounts: w.rec.Leases[l.id], asked: true}
			news = true
		}
	}
	for l := range m.orphans {
		m.uncounted[l] = true
	}
	return news
}

// Count reports, once, that the engine may have a count of a lease that is too small
// by the Mounts of before its start.
func (m *Manager) Count(volume, leaseID string) (uncounted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := lease{volume, leaseID}
	uncounted = m.uncounted[l]
	delete(m.uncounted, l)
	return uncounted
}

// onlyInherited reports whether a workspace has leases, all of them inherited.
func (m *Manager) onlyInherited(rec meta.Workspace) bool {
	own, inherited := m.ownLeases(rec)
	return len(own) == 0 && len(inherited) > 0
}

// verify comes before a Mount of a lease is answered: if the lease is inherited, and
// no container has the workspace any more, it takes from the workspace all
// that is inherited. Where the kernel can't tell, a workspace without another lease
// loses this one and is unmounted: then it can tell whether the workspace is free.
func (m *Manager) verify(ctx context.Context, l lease) error {
	m.mu.Lock()
	w := m.leases[l]
	in, ok := m.inherited[l]
	if ok {
		m.inherited[l] = inheritance{in.mounts, true}
	}
	m.mu.Unlock()
	if !ok || w == nil {
		return nil
	}
	wait := verifyWait
	if in.asked {
		wait = 0
	}
	held, err := m.heldAfter(ctx, w, wait)
	switch {
	case errors.Is(err, overlay.ErrUnknown):
		if len(m.record(w).Leases) > 1 {
			return nil
		}
		return m.disown(w, true)
	case errors.Is(err, overlay.ErrNotMounted), errors.Is(err, fs.ErrNotExist):
		return nil // it has lost its leases
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil: // the lease is believed
		m.Log.WithError(err).WithField("volume", l.volume).Warn("ask whether a container still has its workspace")
		return nil
	case held:
		return nil
	}
	return m.disown(w, false)
}

// Verify takes from workspaces, a while after the start of this process or of the
// engine, what is inherited and no container has, until nothing is left to ask, or ctx ends.
func (m *Manager) Verify(ctx context.Context) {
	for wait := verifyFirst; wait <= verifyLast; wait *= 3 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if !m.verifyAll(ctx) {
			return
		}
	}
}

// verifyAll looks at all workspaces with something inherited, and reports whether
// there were any.
func (m *Manager) verifyAll(ctx context.Context) bool {
	m.mu.Lock()
	all := make(map[*workspace]bool)
	for l := range m.inherited {
		if w := m.leases[l]; w != nil {
			all[w] = true
		}
	}
	m.mu.Unlock()
	for w := range all {
		m.verifyLater(ctx, w, 0)
	}
	return len(all) > 0
}

// verifyLater is verify of all leases of a workspace, while no Mount waits.
func (m *Manager) verifyLater(ctx context.Context, w *workspace, wait time.Duration) {
	held, err := m.heldAfter(ctx, w, wait)
	if err == nil && !held {
		err = m.disown(w, false)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, overlay.ErrUnknown) {
		m.Log.WithError(err).WithField("workspace", w.id).Debug("ask whether a container has a workspace")
	}
}

// heldAfter reports whether a container has a workspace that is mounted. It waits so
// long for the answer no.
func (m *Manager) heldAfter(ctx context.Context, w *workspace, wait time.Duration) (bool, error) {
	for waited := time.Duration(0); ; waited += verifyPause {
		n, err := m.holders(m.Mountpoint(m.record(w)), overlay.PointsDir(m.Root))
		if err != nil || n == 0 || waited >= wait {
			return n > 0, err
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(verifyPause):
		}
	}
}

// disown takes from a workspace what is inherited of its leases. One that has none
// left then has ended, unless its volume keeps it; that one is unmounted if asked for.
func (m *Manager) disown(w *workspace, unmount bool) error {
	rec := m.record(w)
	unlock, err := m.lockJoins(rec.Volume, isPrivate(rec))
	if err != nil {
		return err
	}
	defer unlock()
	var gone []lease
	rec, err = m.change(w, func(rec *meta.Workspace) error {
		var left map[string]int
		switch left, gone = m.ownLeases(*rec); {
		case len(gone) == 0:
		case len(left) > 0 || isKept(*rec) && !unmount: // that one stays mounted
			rec.Leases = left
		default:
			lost(rec, isKept(*rec), m.Now())
		}
		return nil
	}, nil)
	if err != nil || len(gone) == 0 {
		return err
	}
	m.mu.Lock()
	for _, l := range gone {
		delete(m.inherited, l)
	}
	m.mu.Unlock()
	m.Log.WithFields(logrus.Fields{"volume": rec.Volume, "workspace": rec.ID, "leases": len(gone)}).
		Warn("no container has what an earlier start has mounted: these leases are lost")
	switch {
	case rec.Phase == meta.Ended:
		m.reapSoon(w, m.detachEnded(rec))
	case rec.Phase == meta.Parked:
		release, err := m.detach(rec)
		if err != nil {
			return err
		}
		release()
	}
	return nil
}

// ownLeases returns what of a record's leases is not inherited, and the leases of
// which something is.
func (m *Manager) ownLeases(rec meta.Workspace) (own map[string]int, inherited []lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own = make(map[string]int)
	for id, n := range rec.Leases {
		l := lease{rec.Volume, id}
		earlier := m.inherited[l].mounts
		if earlier > 0 {
			inherited = append(inherited, l)
		}
		if n > earlier {
			own[id] = n - earlier
		}
	}
	return own, inherited
}
