package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
)

// Discard describes an ended workspace that can be restored.
type Discard struct {
	ID      string
	Volume  string
	Clone   string // its key
	Subject string
	Repo    string // the URL as the volume had it
	Ref     string // full name; empty for a commit
	Commit  string
	EndedAt time.Time
	// ExpiresAt is when the janitor may evict it.
	ExpiresAt time.Time
	// Changed is the number of files outside of .git that were written or removed;
	// nil until they are counted. With millions of files only a part of them is counted,
	// and Size is that of this part.
	Changed *int64
	// Size is the size of its files; Size.At is zero until they are measured.
	Size meta.Measured
}

// Discards returns all discards, oldest end first, from memory.
func (m *Manager) Discards() []Discard {
	recs := m.records.list(func(w *workspace) bool { return w.rec.Phase == meta.Discarded })
	slices.SortFunc(recs, func(a, b meta.Workspace) int { return a.EndedAt.Compare(b.EndedAt) })
	list := make([]Discard, len(recs))
	for i, r := range recs {
		list[i] = Discard{
			ID: r.ID, Volume: r.Volume, Clone: r.Clone, Subject: r.Options["subject"], Repo: r.Options["repo"],
			Ref: r.Ref, Commit: r.Commit, EndedAt: r.EndedAt, ExpiresAt: r.EndedAt.Add(m.DiscardTTL),
			Changed: r.Changed, Size: r.Size,
		}
	}
	return list
}

// NoDiscardError says that an ID is not that of a discard.
type NoDiscardError struct{ ID string }

func (e *NoDiscardError) Error() string {
	return fmt.Sprintf("there is no discard %q: GET /v1/discards on the admin socket lists them", e.ID)
}

// InUseError says why a discard can't be restored or evicted.
type InUseError struct{ Reason string }

func (e *InUseError) Error() string { return e.Reason }

// EvictDiscard deletes a discard. The error is a *NoDiscardError if the discard is
// unknown, and an *InUseError if it was restored, or if somebody looks at it.
func (m *Manager) EvictDiscard(id string) error {
	w, err := m.records.lookUp(id)
	if err != nil {
		return err
	}
	return m.reaper.remove(w, true)
}

// isDiscard returns an error if a workspace is not a discard: an *InUseError if it was one
// or may become one, and else a *NoDiscardError.
func isDiscard(rec meta.Workspace) error {
	switch {
	case rec.Phase == meta.Discarded:
		return nil
	case rec.Phase == meta.Ended:
		return &InUseError{fmt.Sprintf("workspace %q has just ended, or a container still uses it: "+
			"run it again when it is listed", rec.ID)}
	case rec.Phase.Live() && rec.Restored:
		return &InUseError{fmt.Sprintf("discard %q was restored already: volume %q has it", rec.ID, rec.Volume)}
	}
	return &NoDiscardError{rec.ID}
}

// Discarded returns the record of a discard, or of the workspace that it was restored
// into. The caller must not change the record. The error is a *NoDiscardError if there is
// neither, and an *InUseError if the workspace has ended but is not a discard yet.
func (m *Manager) Discarded(id string) (meta.Workspace, error) {
	w, err := m.records.lookUp(id)
	if err != nil {
		return meta.Workspace{}, err
	}
	rec := m.records.get(w)
	if rec.Phase.Live() && rec.Restored {
		return rec, nil
	}
	return rec, isDiscard(rec)
}

// Restore makes a discard the workspace that a new volume keeps, and calls with in the
// same transaction. The volume's first Join mounts it, on the layers of its record. After
// an error it is a discard as before.
func (m *Manager) Restore(ctx context.Context, id, name string, o volume.Options, with func(*meta.Tx) error) error {
	w, err := m.records.lookUp(id)
	if err != nil {
		return err
	}
	_, err = m.records.change(ctx, w, func(rec *meta.Workspace) error {
		if err := cmp.Or(isDiscard(*rec), m.records.viewed(w)); err != nil {
			return err
		}
		if err := m.mounter.Complete(w.clone, *rec); err != nil {
			return fmt.Errorf("restore discard %q: %w", id, err)
		}
		rec.Phase, rec.Mode, rec.Restored = meta.Parked, string(volume.ModeKeep), true
		rec.Volume, rec.VolumeID, rec.Options, rec.EndedAt, rec.Changed = name, origin.Of(ctx).VolumeID, o.Map(), time.Time{}, nil
		return nil
	}, with)
	if err != nil && m.records.gone(w) {
		return &NoDiscardError{id}
	}
	failpoint.Hit("workspace/restore/recorded")
	return err
}
