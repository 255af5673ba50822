package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/meta"
)

// Sweep commits what NewManager has found, gives those that have ended their
// reapers, and removes directories that no record names: their Open never
// answered. It has warm layers swept too. It returns when all is begun; what a
// container still uses is waited for in the background.
func (m *Manager) Sweep(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(m.Root, "clones", "*", "*", "workspaces", "*"))
	if err != nil {
		return err
	}
	m.mu.Lock()
	var ended, rest, found []*workspace
	for _, dir := range dirs {
		if id := filepath.Base(dir); m.all[id] == nil {
			key, err := filepath.Rel(filepath.Join(m.Root, "clones"), filepath.Dir(filepath.Dir(dir)))
			if err != nil {
				m.mu.Unlock()
				return err
			}
			// It holds no layers.
			m.all[id] = &workspace{id: id, rec: meta.Workspace{ID: id, Clone: key, Phase: meta.Ended}}
		}
	}
	for _, w := range m.all {
		if w.found {
			found = append(found, w)
			w.found = false
		}
		switch {
		case w.rec.Phase == meta.Making || w.reaped:
		case w.rec.Phase == meta.Ended:
			ended = append(ended, w)
		default:
			rest = append(rest, w)
		}
	}
	m.mu.Unlock()
	var errs []error
	for _, w := range found {
		_, err := m.change(w, func(*meta.Workspace) error { return nil }, nil)
		errs = append(errs, err)
	}
	for _, w := range ended {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		release, err := m.detach(m.record(w))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m.reapSoon(w, release)
	}
	for _, w := range rest {
		errs = append(errs, m.sweepLasting(w))
	}
	errs = append(errs, m.Warm.SweepAll(ctx))
	return errors.Join(errs...)
}

// sweepLasting makes the manifest of a workspace that lasts agree with its record,
// drops a discard whose directory is gone, and has others counted that were not.
func (m *Manager) sweepLasting(w *workspace) error {
	rec := m.record(w)
	if !lasts(rec) {
		return nil
	}
	if _, err := os.Lstat(m.upper(rec)); errors.Is(err, os.ErrNotExist) && rec.Phase == meta.Discarded {
		m.Log.WithField("discard", rec.ID).Warn("the directory of a discard is gone: it is forgotten")
		err := m.EvictDiscard(rec.ID)
		none, inUse := (*NoDiscardError)(nil), (*InUseError)(nil)
		if errors.As(err, &none) || errors.As(err, &inUse) {
			return nil // it is just being evicted
		}
		return err
	}
	data, err := os.ReadFile(filepath.Join(m.dir(rec), manifestName))
	var man meta.Workspace
	if err != nil || json.Unmarshal(data, &man) != nil || man.Phase.Live() != rec.Phase.Live() || man.Volume != rec.Volume || man.Mode != rec.Mode {
		if err := m.putManifest(rec, true); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if rec.Phase == meta.Discarded && rec.Changed == nil {
		m.measureSoon(w)
	}
	return nil
}
