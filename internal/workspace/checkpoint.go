package workspace

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Checkpoint describes what an ended workspace left. New workspaces can begin with it.
type Checkpoint struct {
	ID      string
	Volume  string
	Clone   string // its key
	Subject string
	Repo    string // the URL as the volume had it
	Ref     string // full name; empty for a commit
	Commit  string
	EndedAt time.Time
	Made    meta.Made
	Note
	// Below has the IDs of the checkpoints that it stands on, topmost first.
	Below []string
	// Used is set while workspaces or other checkpoints stand on it.
	Used bool
	// ExpiresAt is when the janitor may evict it; zero for one with a name.
	ExpiresAt time.Time
	// Changed is the number of files outside of .git that were written or removed;
	// nil until they are counted. With millions of files only a part of them is counted,
	// and Size is that of this part.
	Changed *int64
	// Size is the size of its files; Size.At is zero until they are measured.
	Size meta.Measured
}

// Checkpoints returns all checkpoints, oldest end first, from memory.
func (m *Manager) Checkpoints() []Checkpoint {
	used := meta.Below(slices.Values(m.records.list(func(w *workspace) bool { return len(w.rec.From) > 0 })))
	recs := m.records.list(func(w *workspace) bool { return w.rec.Phase == meta.Checkpoint })
	slices.SortFunc(recs, func(a, b meta.Workspace) int { return a.EndedAt.Compare(b.EndedAt) })
	list := make([]Checkpoint, len(recs))
	for i, r := range recs {
		list[i] = Checkpoint{
			Made: r.Made, Note: Note{r.Name, r.Message},
			ID: r.ID, Volume: r.Volume, Clone: r.Clone, Subject: r.Options["subject"], Repo: r.Options["repo"],
			Ref: r.Ref, Commit: r.Commit, EndedAt: r.EndedAt, Below: r.From, Used: used[r.ID], ExpiresAt: r.EndedAt.Add(m.config.CheckpointTTL),
			Changed: r.Changed, Size: r.Size,
		}
		if r.Name != "" {
			list[i].ExpiresAt = time.Time{}
		}
	}
	return list
}

// NoCheckpointError says that an ID is not that of a checkpoint, or not that of one of Subject, if
// that is not empty.
type NoCheckpointError struct {
	ID      string
	Subject volume.Subject
}

func (e *NoCheckpointError) Error() string {
	return fmt.Sprintf("there is no checkpoint %s: docker repos checkpoints ls lists them", e.name())
}

func (e *NoCheckpointError) name() string {
	if e.Subject == "" {
		return strconv.Quote(e.ID)
	}
	return fmt.Sprintf("%q of the subject %q", e.ID, e.Subject)
}

// InUseError says why a workspace can't be looked at, or a checkpoint be used or evicted.
type InUseError struct{ Reason string }

func (e *InUseError) Error() string { return e.Reason }

// EvictCheckpoint deletes a checkpoint for nobody who asks for it. The error is a *NoCheckpointError if the checkpoint is
// unknown, and an *InUseError if a workspace stands on it, if somebody looks at it, or if it has a name: a user may have
// given it one since the eviction was planned.
func (m *Manager) EvictCheckpoint(id string) error {
	return m.removeCheckpoint(context.Background(), id, func(rec meta.Workspace) error {
		if err := isCheckpoint(rec); err != nil || rec.Name == "" {
			return err
		}
		return &InUseError{fmt.Sprintf("checkpoint %q has the name %q, so only a user removes it", rec.ID, rec.Name)}
	})
}

func (m *Manager) removeCheckpoint(ctx context.Context, id string, may func(meta.Workspace) error) error {
	w, err := m.records.lookUp(id)
	if err != nil {
		return err
	}
	return m.reaper.remove(ctx, w, may)
}

// RemoveCheckpoint is EvictCheckpoint for a user who asks for it, whether it has a name or not.
func (m *Manager) RemoveCheckpoint(ctx context.Context, id string) error {
	rec, _ := m.Workspace(id)
	err := m.removeCheckpoint(ctx, id, isCheckpoint)
	if err == nil {
		m.config.observe(ctx, Event{Step: StepRemoved, Record: rec})
	}
	return err
}

// isCheckpoint returns an error if a workspace is not a checkpoint: an *InUseError if it was one
// or may become one, and else a *NoCheckpointError.
func isCheckpoint(rec meta.Workspace) error {
	switch {
	case rec.Phase == meta.Checkpoint:
		return nil
	case rec.Phase == meta.Ended:
		return &InUseError{fmt.Sprintf("workspace %q has just ended, or a container still uses it: "+
			"run it again when docker repos checkpoints ls lists it", rec.ID)}
	}
	return &NoCheckpointError{rec.ID, volume.Subject(rec.Options["subject"])}
}

// Checkpoint returns the record of a checkpoint of a subject. The caller must not change the record. The error is a
// *NoCheckpointError if there is none, and an *InUseError if the workspace has ended but is not a checkpoint yet.
// What another subject has is as good as unknown, so that no error tells about it.
func (m *Manager) Checkpoint(id string, s volume.Subject) (meta.Workspace, error) {
	w, err := m.records.lookUp(id)
	if err != nil {
		return meta.Workspace{}, &NoCheckpointError{id, s}
	}
	rec := m.records.get(w)
	if rec.Options["subject"] != string(s) {
		return meta.Workspace{}, &NoCheckpointError{id, s}
	}
	return rec, isCheckpoint(rec)
}

// standsOn returns an *InUseError if a workspace, or another checkpoint, stands on a checkpoint.
func (r *records) standsOn(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		for held := range w.holds { // it may have been merged since
			if slices.Contains(held.Record.From, id) {
				return &InUseError{fmt.Sprintf("somebody looks at checkpoint %q, which stands on checkpoint %q: run it again when that has ended", w.id, id)}
			}
		}
		if slices.Contains(w.rec.From, id) {
			kind := "workspace"
			if w.rec.Phase == meta.Checkpoint {
				kind = "checkpoint"
			}
			return &InUseError{fmt.Sprintf("%s %q of volume %q stands on checkpoint %q: it has to go first", kind, w.id, w.rec.Volume, id)}
		}
	}
	return nil
}
