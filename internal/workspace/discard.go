package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// worthKeeping reports whether a workspace that has ended, and is free, leaves a
// discard: somebody has written into it, and what was written is there.
func (m *Manager) worthKeeping(ctx context.Context, w *workspace) (bool, error) {
	rec := m.record(w)
	switch {
	case m.DiscardTTL == 0, rec.Options == nil: // of a record that has none it is not known what it is
		return false, nil
	case !isKept(rec) && rec.Boot != m.Clones.Boot: // it was never synced
		return false, nil
	}
	touched, err := m.touched(ctx, w)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return touched, err
}

// touched reports whether a workspace that nobody uses has changes.
func (m *Manager) touched(ctx context.Context, w *workspace) (bool, error) {
	rec := m.record(w)
	var lower []string
	if w.clone != nil {
		lower = m.lower(rec, w.clone.Trees.Lower(rec.Chain, rec.GitLayer))
	}
	return touched(ctx, m.upper(rec), lower)
}

// discard makes a workspace that has ended, and is free, a discard: what is in it
// is on disk before the record says so.
func (m *Manager) discard(ctx context.Context, w *workspace) error {
	// The mark that a volatile mount leaves, and stops at: the upper can't be
	// trusted. It can, once all of it is written.
	mark := filepath.Join(m.dir(m.record(w)), "work", "work", "incompat")
	if err := os.RemoveAll(mark); err != nil {
		return err
	}
	failpoint.Hit("workspace/discard/unmarked")
	rec := m.record(w)
	if err := errors.Join(m.Warm.Settle(ctx, rec.Clone, rec.Warm), m.Clones.Sync(ctx)); err != nil {
		return err
	}
	failpoint.Hit("workspace/discard/synced")
	rec, err := m.change(w, func(rec *meta.Workspace) error {
		rec.Phase, rec.Orphan, rec.Lost, rec.Changed, rec.Size = meta.Discarded, false, nil, nil, meta.Measured{}
		return nil
	}, nil)
	failpoint.Hit("workspace/discard/recorded")
	if err != nil {
		return err
	}
	m.Log.WithFields(map[string]any{"volume": rec.Volume, "discard": rec.ID}).Info("a workspace with changes has ended: it is kept as a discard")
	m.measureSoon(w)
	return nil
}

// measureSoon counts, in the background, what a discard is.
func (m *Manager) measureSoon(w *workspace) {
	m.Clones.Background(func(ctx context.Context) {
		found, err := survey(ctx, m.upper(m.record(w)))
		if err == nil || disk.AtLeast(err) {
			_, err = m.change(w, func(rec *meta.Workspace) error {
				if rec.Phase == meta.Discarded {
					rec.Changed, rec.Size = &found.Files, meta.Measured{Size: found.Size, At: m.Now()}
				}
				return nil
			}, nil)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
			m.Log.WithError(err).WithField("discard", w.id).Warn("count what is in a discard: the next start tries again")
		}
	})
}

// Discard is what is left of a workspace that has ended, and can be restored.
type Discard struct {
	ID      string
	Volume  string
	Clone   string // its key
	Subject string
	Repo    string // the URL as the volume had it
	Ref     string // full name; empty for a commit
	Commit  string
	EndedAt time.Time
	// ExpiresAt is when the janitor may take it.
	ExpiresAt time.Time
	// Changed is the number of files outside of .git that were written or removed;
	// nil until they are counted. With millions of files it is a part of them, and so
	// is Size.
	Changed *int64
	// Size is that of its files; its At is zero until they are measured.
	Size meta.Measured
}

// Discards returns all discards, oldest end first, from memory.
func (m *Manager) Discards() []Discard {
	recs := m.list(func(w *workspace) bool { return w.rec.Phase == meta.Discarded })
	slices.SortFunc(recs, func(a, b meta.Workspace) int { return a.EndedAt.Compare(b.EndedAt) })
	list := make([]Discard, len(recs))
	for i, r := range recs {
		list[i] = Discard{
			ID: r.ID, Volume: r.Volume, Clone: r.Clone, Subject: r.Options["subject"], Repo: r.Options["repo"],
			Ref: r.Ref, Commit: r.Commit, EndedAt: r.EndedAt, ExpiresAt: r.EndedAt.Add(m.DiscardTTL), Changed: r.Changed, Size: r.Size,
		}
	}
	return list
}

// NoDiscardError says that there is no discard of an ID.
type NoDiscardError struct{ ID string }

func (e *NoDiscardError) Error() string {
	return fmt.Sprintf("there is no discard %q: GET /v1/discards on the admin socket lists them", e.ID)
}

// InUseError says why a discard can't be taken.
type InUseError struct{ Reason string }

func (e *InUseError) Error() string { return e.Reason }

// EvictDiscard deletes a discard. The error is a *NoDiscardError if there is none,
// and an *InUseError if it was restored.
func (m *Manager) EvictDiscard(id string) error {
	w, err := m.lookUp(id)
	if err != nil {
		return err
	}
	return m.remove(w, true)
}

// lookUp returns the workspace of an ID. The error is a *NoDiscardError.
func (m *Manager) lookUp(id string) (*workspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.all[id]
	if !ok {
		return nil, &NoDiscardError{id}
	}
	return w, nil
}

// isDiscard says why a workspace is not a discard: the error is an *InUseError if it
// was one, or may become one.
func isDiscard(rec meta.Workspace) error {
	switch {
	case rec.Phase == meta.Discarded:
		return nil
	case rec.Phase == meta.Ended:
		return &InUseError{fmt.Sprintf("workspace %q has just ended, or a container still uses it: run it again when it is listed", rec.ID)}
	case rec.Phase.Live() && rec.Restored:
		return &InUseError{fmt.Sprintf("discard %q was restored already: volume %q has it", rec.ID, rec.Volume)}
	}
	return &NoDiscardError{rec.ID}
}
