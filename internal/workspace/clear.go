package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/obstacle"
)

// Obstacles returns the workspaces and discards that stand on a clone, from memory: leases
// first, then by volume.
func (m *Manager) Obstacles(cloneKey string) (list []obstacle.Obstacle) {
	var leases []obstacle.Obstacle
	for _, rec := range m.records.standing(cloneKey) {
		for _, o := range obstacle.Of(rec) {
			if o.Kind == "lease" {
				leases = append(leases, o)
			} else {
				list = append(list, o)
			}
		}
	}
	byVolume := func(a, b obstacle.Obstacle) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.ID, b.ID))
	}
	slices.SortStableFunc(leases, byVolume)
	slices.SortStableFunc(list, byVolume)
	return append(leases, list...)
}

// standing returns the records of the workspaces of a clone, oldest first.
func (r *records) standing(cloneKey string) []meta.Workspace {
	return r.list(func(w *workspace) bool { return w.rec.Clone == cloneKey })
}

// settleWait is how long Settle waits. A workspace with many changes takes seconds.
const settleWait = 10 * time.Second

// Settle waits until workspaces of some clones that have just ended are removed, or discards.
// It gives up after a while, because a container may use one for days. The error is ctx's
// cause.
func (m *Manager) Settle(ctx context.Context, cloneKeys ...string) error {
	ended := func(w *workspace) bool { return w.rec.Phase == meta.Ended && slices.Contains(cloneKeys, w.rec.Clone) }
	timeout := time.NewTimer(settleWait)
	defer timeout.Stop()
	for {
		reaped := m.records.nextReaped() // before the list: it misses none that is reaped meanwhile
		if len(m.records.list(ended)) == 0 {
			return nil
		}
		select {
		case <-reaped:
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Clear removes the workspaces that volumes keep, and the discards, of a clone that no Create
// and no Mount uses meanwhile, and returns their IDs. If anything else stands on the clone,
// or a container or a process still uses a kept workspace, the error is an *obstacle.Error,
// and nothing was removed; without force, a kept workspace and a discard are such obstacles
// too. When all are unmounted, Clear calls ready; after an error of ready, nothing was removed
// either. After another error some are removed, and each of the others is as before.
func (m *Manager) Clear(ctx context.Context, cloneKey string, force bool, ready func() error) (removed []string, err error) {
	if err := obstacle.Blocked(m.Obstacles(cloneKey), force); err != nil {
		return nil, err
	}
	recs := m.records.standing(cloneKey)
	if err := m.ParkUnused(ctx, cloneKey); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	for _, rec := range recs {
		err := m.removeUnused(ctx, rec)
		// Without a record it is removed, even if its files could not be moved to the trash yet.
		if _, gone := m.records.lookUp(rec.ID); err == nil || gone != nil {
			removed = append(removed, rec.ID)
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// ParkUnused unmounts the workspaces that volumes keep, and that nobody uses, of some clones.
// The next Mount of such a volume mounts its workspace again. If somebody uses any of the
// clones' workspaces, the error is an *obstacle.Error that lists all of those.
func (m *Manager) ParkUnused(ctx context.Context, cloneKeys ...string) error {
	var busy []obstacle.Obstacle
	for _, key := range cloneKeys {
		for _, rec := range m.records.standing(key) {
			inUse, err := m.park(ctx, rec)
			if err != nil {
				return err
			}
			if inUse != "" {
				busy = append(busy, obstacle.Obstacle{Kind: "workspace", ID: rec.ID, Volume: rec.Volume, Clone: rec.Clone, Text: inUse})
			}
		}
	}
	if len(busy) > 0 {
		return &obstacle.Error{List: busy}
	}
	return nil
}

// park unmounts a workspace that a volume keeps, and that has no leases. If somebody still
// uses it, inUse says who, and the volume's next Mount mounts it again if necessary.
func (m *Manager) park(ctx context.Context, rec meta.Workspace) (inUse string, err error) {
	if w, err := m.records.lookUp(rec.ID); err == nil && m.records.viewed(w) != nil {
		return m.records.viewed(w).Error(), nil
	}
	if rec.Phase == meta.Discarded {
		return "", nil
	}
	unlock, err := m.volumes.Lock(ctx, rec.Volume)
	if err != nil {
		return "", err
	}
	defer unlock()
	w, err := m.records.lookUp(rec.ID)
	if err != nil {
		return "", nil // its volume was removed meanwhile, and it had no changes
	}
	_, err = m.records.change(ctx, w, func(rec *meta.Workspace) error {
		if !rec.Phase.Live() || len(rec.Leases) > 0 {
			return &InUseError{obstacle.Of(*rec)[0].Text}
		}
		if rec.Phase == meta.Mounted {
			if err := m.unused(ctx, w, *rec, 0); err != nil {
				return err
			}
			if err := m.unmount(ctx, w, *rec); err != nil {
				return err
			}
			rec.Phase = meta.Parked
		}
		return nil
	}, nil)
	failpoint.Hit("workspace/clear/parked")
	if used, ok := errors.AsType[*InUseError](err); ok {
		return used.Reason, nil
	}
	if err != nil && m.records.gone(w) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// A container that outlived a disabled plugin has an overlay that no mount of ours shows.
	waiting, cancel := context.WithTimeout(ctx, m.HeldWait)
	defer cancel()
	if err := m.waitFree(waiting, m.records.get(w)); !errors.Is(err, ErrHeld) {
		return "", err
	}
	return fmt.Sprintf("a container still uses the workspace that volume %q keeps", rec.Volume), nil
}

// removeUnused removes a discard, or a workspace after park.
func (m *Manager) removeUnused(ctx context.Context, rec meta.Workspace) error {
	unlock, err := m.volumes.Lock(ctx, rec.Volume) // the volume may be removed, which ends the workspace
	if err != nil {
		return err
	}
	defer unlock()
	w, err := m.records.lookUp(rec.ID)
	if err != nil {
		return nil // evicted meanwhile
	}
	switch now := m.records.get(w); {
	case now.Phase == meta.Discarded:
		err = m.reaper.remove(w, true)
	case now.Phase == meta.Parked:
		err = m.reaper.remove(w, false)
	default:
		return &obstacle.Error{List: obstacle.Of(now)}
	}
	if _, gone := errors.AsType[*NoDiscardError](err); gone {
		return nil
	}
	return err
}
