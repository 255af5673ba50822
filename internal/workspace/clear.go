package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/obstacle"
)

// Obstacles returns the workspaces and checkpoints that stand on a clone, from memory: leases
// first, then by volume.
func (m *Manager) Obstacles(cloneKey string) []obstacle.Obstacle {
	return obstacle.All(m.records.standing(cloneKey))
}

// standing returns the records of the workspaces of a clone, oldest first.
func (r *records) standing(cloneKey string) []meta.Workspace {
	return r.list(func(w *workspace) bool { return w.rec.Clone == cloneKey })
}

// reapedWait is how long AwaitReaped waits. A workspace with many changes takes seconds.
const reapedWait = 10 * time.Second

// AwaitReaped waits until workspaces of some clones that have just ended are removed, or checkpoints.
// It gives up after a while, because a container may use one for days. The error is ctx's
// cause.
func (m *Manager) AwaitReaped(ctx context.Context, cloneKeys ...string) error {
	ended := func(w *workspace) bool { return w.rec.Phase == meta.Ended && slices.Contains(cloneKeys, w.rec.Clone) }
	timeout := time.NewTimer(reapedWait)
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

// Clear removes the workspaces that volumes keep, and the checkpoints, of a clone that no Create
// and no Mount uses meanwhile, and returns their IDs. If anything else stands on the clone,
// or a container or a process still uses a kept workspace, the error is an *obstacle.Error,
// and nothing was removed; without force, a kept workspace and a checkpoint are such obstacles
// too. When all are unmounted, Clear calls ready; after an error of ready, nothing was removed
// either. After another error some are removed, and each of the others is as before.
func (m *Manager) Clear(ctx context.Context, cloneKey string, force bool, ready func() error) (removed []string, err error) {
	if err := obstacle.Blocked(m.Obstacles(cloneKey), force); err != nil {
		return nil, err
	}
	recs := m.records.standing(cloneKey)
	slices.SortStableFunc(recs, func(a, b meta.Workspace) int { return len(b.From) - len(a.From) }) // each before those it stands on
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
	if rec.Phase == meta.Checkpoint {
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
	err = eventually(ctx, func() error { return m.unmountUnused(ctx, w) })
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
	waiting, cancel := context.WithTimeout(ctx, m.config.HeldWait)
	defer cancel()
	if err := m.waitFree(waiting, m.records.get(w)); !errors.Is(err, ErrHeld) {
		return "", err
	}
	return fmt.Sprintf("a container still uses the workspace that volume %q keeps", rec.Volume), nil
}

// unmountUnused tries once to unmount a workspace without leases that nobody uses, and commits that it is parked.
func (m *Manager) unmountUnused(ctx context.Context, w *workspace) error {
	before, unlock, err := m.records.begin(w)
	if err != nil {
		return err
	}
	defer unlock()
	if !before.Phase.Live() || len(before.Leases) > 0 {
		return &InUseError{obstacle.Of(before)[0].Text}
	}
	rec := before
	if before.Phase == meta.Mounted {
		if err := m.unused(ctx, w, before, 0); err != nil {
			return err
		}
		if err := m.unmount(ctx, w, before); err != nil {
			return err
		}
		rec.Phase = meta.Parked
	}
	_, err = m.records.commit(ctx, w, before, rec, nil)
	return err
}

// removeUnused removes a checkpoint, or a workspace after park.
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
	case now.Phase == meta.Checkpoint:
		if err = m.reaper.remove(ctx, w, isCheckpoint); err == nil {
			m.config.observe(ctx, Event{Step: StepRemoved, Record: now})
		}
	case now.Phase == meta.Parked:
		err = m.reaper.remove(ctx, w, nil)
	default:
		return &obstacle.Error{List: obstacle.Of(now)}
	}
	if _, gone := errors.AsType[*NoCheckpointError](err); gone {
		return nil
	}
	return err
}
