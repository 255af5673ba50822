package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/mounter"
	"github.com/helmdeck/repos/internal/origin"
)

// Sweep is the startup sweep. It commits the phases that NewManager changed, starts the
// reapers of ended workspaces, and removes directories without a record, because their
// Open never answered. It sweeps warm layers too. It does not wait for reapers: they run
// in the background.
func (m *Manager) Sweep(ctx context.Context) error {
	errs := []error{m.records.handOutAgain(ctx)} // first, because containers wait for it
	dirs, err := fs.Glob(os.DirFS(filepath.Join(m.Root, "clones")), "*/*/workspaces/*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		id := path.Base(dir)
		if _, err := m.records.lookUp(id); err != nil { // it holds no references to layers
			m.records.put(newWorkspace(id, nil), meta.Workspace{ID: id, Clone: path.Dir(path.Dir(dir)), Phase: meta.Ended})
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
	return errors.Join(append(errs, m.Warm.SweepAll(ctx))...)
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
// discard whose directory is gone, and counts a discard that was not counted.
func (m *Manager) sweepLasting(ctx context.Context, w *workspace, rec meta.Workspace) error {
	if _, err := os.Lstat(m.mounter.Upper(rec)); errors.Is(err, os.ErrNotExist) && rec.Phase == meta.Discarded {
		m.Log.WithContext(ctx).WithField("discard", rec.ID).Warn("the directory of a discard is gone: its record is removed")
		err := m.EvictDiscard(rec.ID)
		none, inUse := (*NoDiscardError)(nil), (*InUseError)(nil)
		if errors.As(err, &none) || errors.As(err, &inUse) {
			return nil // it was evicted meanwhile
		}
		return err
	}
	data, err := os.ReadFile(m.mounter.Manifest(rec))
	var man meta.Workspace
	if err != nil || json.Unmarshal(data, &man) != nil || man.Phase.Live() != rec.Phase.Live() ||
		man.Volume != rec.Volume || man.Mode != rec.Mode {
		if err := mounter.PutManifest(m.mounter.Manifest(rec), rec, true); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if rec.Phase == meta.Discarded && rec.Changed == nil {
		m.reaper.measureSoon(ctx, w)
	}
	return nil
}
