package workspace

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Discarded returns the record of a discard, which is not to be changed, or, if it
// was restored, of the workspace that it has become. The error is a
// *NoDiscardError if there is neither, and an *InUseError while it is on its way.
func (m *Manager) Discarded(id string) (meta.Workspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.all[id]
	switch {
	case !ok:
		return meta.Workspace{}, &NoDiscardError{id}
	case w.rec.Phase.Live() && w.rec.Restored:
		return w.rec, nil
	}
	return w.rec, isDiscard(w.rec)
}

// Restore makes a discard the workspace that a new volume keeps, in one
// transaction with what with does. It is mounted by the volume's first Join, on
// the layers that it stood on. After an error it is a discard as before.
func (m *Manager) Restore(id, name string, o volume.Options, with func(*meta.Tx) error) error {
	w, err := m.lookUp(id)
	if err != nil {
		return err
	}
	_, err = m.change(w, func(rec *meta.Workspace) error {
		if err := isDiscard(*rec); err != nil {
			return err
		}
		if err := m.complete(w); err != nil {
			return fmt.Errorf("restore discard %q: %w", id, err)
		}
		rec.Phase, rec.Mode, rec.Restored = meta.Parked, string(volume.ModeKeep), true
		rec.Volume, rec.Options, rec.EndedAt, rec.Changed = name, o.Map(), time.Time{}, nil
		return nil
	}, with)
	if err != nil && m.gone(w) {
		return &NoDiscardError{id}
	}
	failpoint.Hit("workspace/restore/recorded")
	return err
}

// complete checks that a discard has all that it stands on.
func (m *Manager) complete(w *workspace) error {
	rec := m.record(w)
	if w.clone == nil {
		return errors.New("its clone is gone")
	}
	for _, dir := range append([]string{m.upper(rec)}, m.lower(rec, w.clone.Trees.Lower(rec.Chain, rec.GitLayer))...) {
		if _, err := os.Lstat(dir); err != nil {
			return err
		}
	}
	return nil
}
