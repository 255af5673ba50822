package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/workspace/mounter"
)

// Sweep is the startup sweep. It commits the phases that NewManager changed, starts the reapers of ended workspaces,
// and removes directories without a record, because their Open never answered. It sweeps warm layers too. It does not
// wait for reapers: they run in the background.
func (m *Manager) Sweep(ctx context.Context) error {
	errs := []error{m.records.handOutAgain(ctx), m.sweepProjects()} // first, because containers wait for it
	dirs, err := place.All(m.config.Root, place.Workspaces+"/*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		id := filepath.Base(dir.Path)
		if _, err := m.records.lookUp(id); err != nil { // it holds no references to layers
			m.records.put(newWorkspace(id, nil), meta.Workspace{ID: id, Clone: dir.Key, Phase: meta.Ended})
		}
	}
	var all []*workspace
	m.records.each(func(w *workspace) { all = append(all, w) })
	for _, w := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, m.sweep(ctx, w))
	}
	m.reaper.flattenWaiting()
	m.warnCopied(ctx, all)
	return errors.Join(append(errs, m.config.Warm.SweepAll(ctx))...)
}

// warnCopied logs how many of these workspaces are copies without extended attributes, because nobody
// may ask for them before the data that they were copied from is deleted.
func (m *Manager) warnCopied(ctx context.Context, all []*workspace) {
	copied := make(map[meta.Phase]int)
	for _, w := range all {
		if rec := m.records.get(w); rec.Lasts() {
			if whole, err := overlay.Marked(m.mounter.Upper(rec)); err == nil && !whole {
				copied[rec.Phase]++
			}
		}
	}
	if len(copied) > 0 {
		m.config.Log.WithContext(ctx).WithFields(map[string]any{"kept": copied[meta.Parked] + copied[meta.Mounted], "checkpoints": copied[meta.Checkpoint]}).
			WithError(mounter.ErrCopied).Error("workspaces can't be mounted, and nothing can begin with checkpoints")
	}
}

// sweep is Sweep of one workspace.
func (m *Manager) sweep(ctx context.Context, w *workspace) error {
	ctx = origin.ForVolume(ctx, m.records.get(w).VolumeID)
	unsaved, reaped := m.records.markSaved(w)
	var err error
	if unsaved {
		_, err = m.records.change(ctx, w, func(*meta.Workspace) error { return nil }, nil)
	}
	switch rec := m.records.get(w); {
	case rec.Phase == meta.Ended && !reaped:
		release, detachErr := m.mounter.Detach(ctx, rec)
		if detachErr != nil {
			return errors.Join(err, detachErr)
		}
		m.reaper.start(ctx, w, release)
	case rec.Lasts() && rec.Phase != meta.Ended && rec.Phase != meta.Making:
		err = errors.Join(err, m.sweepLasting(ctx, w, rec))
	}
	return err
}

// sweepLasting updates the manifest of a workspace that lasts, removes the record of a
// checkpoint whose directory is gone, and counts a checkpoint that was not counted.
func (m *Manager) sweepLasting(ctx context.Context, w *workspace, rec meta.Workspace) error {
	if _, err := os.Lstat(m.mounter.Upper(rec)); errors.Is(err, os.ErrNotExist) && rec.Phase == meta.Checkpoint {
		err := m.removeCheckpoint(ctx, rec.ID, isCheckpoint)
		none, inUse := (*NoCheckpointError)(nil), (*InUseError)(nil)
		if errors.As(err, &none) {
			return nil // it was evicted meanwhile
		}
		log := m.config.Log.WithContext(ctx).WithField("checkpoint", rec.ID)
		if errors.As(err, &inUse) {
			log.WithError(err).Warn("the directory of a checkpoint is gone")
			return nil
		}
		if err == nil {
			log.Warn("the directory of a checkpoint is gone: its record is removed")
		}
		return err
	}
	data, err := os.ReadFile(m.mounter.Manifest(rec))
	var man meta.Workspace
	if err != nil || json.Unmarshal(data, &man) != nil || man.Phase.Live() != rec.Phase.Live() ||
		man.Volume != rec.Volume || man.Mode != rec.Mode || man.Name != rec.Name || man.Message != rec.Message ||
		len(man.Merged) != len(rec.Merged) {
		if err := mounter.PutManifest(m.mounter.Manifest(rec), rec, true); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if rec.Phase == meta.Checkpoint && rec.Changed == nil {
		m.reaper.measureSoon(ctx, w)
	}
	m.reaper.dropUnmerged(ctx, rec.ID)
	return nil
}
