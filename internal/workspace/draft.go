package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/admission"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/internal/workspace/replica"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

const (
	// maxCopyDepth bounds what is copied, because of descriptors: there are two for each level.
	maxCopyDepth = 200
	// draftLife is how long a draft waits for its next call.
	draftLife = 2 * time.Minute
)

// RefusedError says why nothing can begin with a checkpoint, why a workspace can't be copied, or why a draft can't be continued.
type RefusedError struct{ error }

func (e *RefusedError) Unwrap() error { return e.error }

// Note is what a user says about a checkpoint.
type Note struct {
	Name    string // empty for none
	Message string // empty for none
}

// Copied says what a step of a copy did.
type Copied struct {
	ID string         // that the checkpoint is going to have
	Of meta.Workspace // its record, or that of a checkpoint that was there; callers must not change it
	// Was is the name that a checkpoint had until it got another one.
	Was string
	replica.Result
}

// Draft begins a checkpoint that is a copy of a workspace, which goes on living: it copies everything that the workspace has
// changed, while containers write. CatchUp then copies what has changed since, and Keep makes a checkpoint of it. A caller
// that pauses the containers around CatchUp gets their state at one moment. Without CatchUp each file is as of some moment
// of its own. A draft is dropped two minutes after the last call.
//
// A checkpoint is not copied: it gets the note, unless that is empty, and is the result, which neither CatchUp nor Keep takes.
// The errors are those of Hold, or a *RefusedError.
func (m *Manager) Draft(ctx context.Context, id string, n Note) (c Copied, err error) {
	w, err := m.records.lookUp(id)
	if err != nil {
		return c, &NoWorkspaceError{id}
	}
	rec := m.records.get(w)
	if rec.Phase == meta.Checkpoint {
		c = Copied{ID: id, Of: rec}
		if n == (Note{}) {
			return c, nil
		}
		if c.Of, err = m.note(ctx, w, n); err == nil && c.Of.Name != rec.Name {
			c.Was = rec.Name
		}
		m.config.observe(ctx, Event{Step: StepNoted, Record: c.Of, Err: err})
		return c, err
	}
	if n.Name == "" && m.config.CheckpointTTL == 0 {
		return c, &RefusedError{errors.New("the setting CHECKPOINT_TTL=0 lets nothing be kept that has no name: give it a name")}
	}
	if w.clone == nil {
		return c, &NoWorkspaceError{id}
	}
	defer func() {
		if err != nil {
			m.config.observe(ctx, Event{Step: StepCopied, Record: rec, Err: err})
		}
	}()
	subject := admission.SubjectOf(rec.Clone)
	turn, err := m.copying.Turn(ctx, subject)
	if err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			turn.End()
		}
	}()
	unlock, err := m.copying.Lock(ctx, subject)
	if err != nil {
		return c, err
	}
	defer unlock()
	if err := turn.BeginPass(ctx); err != nil {
		return c, err
	}
	err = w.clone.WithRoom(ctx, clone.FewFiles, func() (err error) {
		d := &draft{}
		d.busy.Lock()
		defer d.busy.Unlock()
		if c, err = m.beginDraft(ctx, d, w, n, turn); err != nil {
			return errors.Join(err, m.dropDraft(ctx, d))
		}
		turn.EndPass()
		d.turn = turn
		return nil
	})
	return c, err
}

// note gives a checkpoint a name and a message, as far as they are not empty.
func (m *Manager) note(ctx context.Context, w *workspace, n Note) (rec meta.Workspace, err error) {
	subject := admission.SubjectOf(m.records.get(w).Clone)
	unlock, err := m.copying.Lock(ctx, subject)
	if err != nil {
		return rec, err
	}
	defer unlock()
	if n.Name != "" && !admission.Counts(m.records.get(w)) {
		if err := m.admission.OneMore(subject); err != nil {
			return rec, &RefusedError{err}
		}
	}
	put := func() (err error) {
		rec, err = m.records.change(ctx, w, func(rec *meta.Workspace) error {
			if err := isCheckpoint(*rec); err != nil {
				return err
			}
			rec.Name, rec.Message = cmp.Or(n.Name, rec.Name), cmp.Or(n.Message, rec.Message)
			return nil
		}, nil)
		return err
	}
	if before := m.records.get(w); n.Name != "" && before.Name == "" {
		if err := m.reaper.measureNow(ctx, append(slices.Clone(before.From), w.id)...); err != nil {
			return rec, err
		}
		err = m.admission.Name(ctx, m.records.get(w), put)
	} else {
		err = put()
	}
	return rec, namedError(err)
}

// namedError returns an error of admission.Desk as a *RefusedError, and any other as it is.
func namedError(err error) error {
	if _, ok := errors.AsType[*admission.NamedError](err); ok {
		return &RefusedError{err}
	}
	return err
}

// beginDraft fills an empty draft. The caller drops it after an error.
func (m *Manager) beginDraft(
	ctx context.Context, d *draft, w *workspace, n Note, turn *admission.Turn,
) (c Copied, err error) {
	if d.release, err = w.clone.Use(ctx); err != nil {
		return c, err
	}
	if d.hold, err = m.Hold(context.WithoutCancel(ctx), w.id); err != nil {
		return c, err
	}
	of := d.hold.Record
	if of.Phase == meta.Checkpoint {
		return c, &InUseError{fmt.Sprintf("workspace %q has just ended: run it again", w.id)}
	}
	if d.room, err = admission.HalfOfFree(m.config.Root); err != nil {
		return c, err
	}
	d.rec = meta.Workspace{
		ID: newID(), Phase: meta.Checkpoint, Mode: of.Mode, Clone: of.Clone, Volume: of.Volume, VolumeID: of.VolumeID,
		UID: of.UID, GID: of.GID, Options: of.Options, Boot: m.config.Boot, MountedAt: of.MountedAt,
		Made: meta.MadeByUser, Name: n.Name, Message: n.Message,
	}
	d.rec.StandLike(of)
	limits, err := m.copyLimits(d)
	if err != nil {
		return c, err
	}
	c.ID, c.Of = d.rec.ID, d.rec
	if err := m.standBeside(ctx, d, w); err != nil {
		return c, err
	}
	if err := m.mounter.MakeCopy(d.rec); err != nil {
		return c, err
	}
	if d.src, err = os.Open(d.hold.Upper); err != nil {
		return c, err
	}
	if d.dst, err = os.Open(m.mounter.Upper(d.rec)); err != nil {
		return c, err
	}
	failpoint.Hit("workspace/draft/made")
	copying, cancel := d.during(ctx)
	defer cancel()
	began := m.config.Now()
	d.copy, c.Result, err = replica.Start(copying, d.src, d.dst, replica.Options{
		Limits: limits, Grow: turn.Grow, Skip: leftOutOfCopy, Untied: true, Room: func() error { return d.room() },
	})
	if err != nil {
		return c, d.copyError(copying, err)
	}
	if d.rec.Name != "" { // so that it counts for others, and nobody is paused for what Keep would refuse
		d.rec.Size.Bytes = c.Copied + c.Cloned
		m.records.note(ctx, d.w, func(rec *meta.Workspace) { rec.Size = d.rec.Size })
		if err := m.admission.Fits(d.rec); err != nil {
			return c, namedError(err)
		}
	}
	m.config.observe(ctx, Event{Step: StepCopied, Record: d.rec, Copied: c, Took: m.config.Now().Sub(began)})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drafts[c.ID] = d
	background := context.WithoutCancel(ctx)
	d.unwatch = context.AfterFunc(d.hold.Context(), func() { m.drop(background, c.ID, true) })
	m.awaitCall(background, d)
	return c, nil
}

// standBeside holds what a draft stands on, which is what the workspace stands on that it is a copy of, and which that
// holds meanwhile.
func (m *Manager) standBeside(ctx context.Context, d *draft, of *workspace) error {
	unlock, err := m.records.locks.Lock(ctx, of.id) // so that it is not removed
	if err != nil {
		return err
	}
	defer unlock()
	if m.records.gone(of) {
		return &NoWorkspaceError{of.id}
	}
	d.w = newWorkspace(d.rec.ID, of.clone)
	m.config.holdLayers(d.w, d.rec)
	making := d.rec
	making.Phase, making.Volume = meta.Making, "" // it is none of the volume's workspaces, whoever looks for these
	m.records.put(d.w, making)                    // before its directory: the sweep leaves it alone
	return nil
}

// leftOutOfCopy reports whether a path is no part of a checkpoint that is a copy.
func leftOutOfCopy(path string) bool { return path == cache.Mount || path == upper.Mark }

// copyError explains an error of a copy.
func (d *draft) copyError(ctx context.Context, err error) error {
	if room, ok := errors.AsType[*admission.RoomError](err); ok {
		return &RefusedError{room}
	}
	limit, ok := errors.AsType[*replica.LimitError](err)
	switch {
	case ok && limit.Kind == replica.Bytes && d.full != nil:
		return &RefusedError{d.full}
	case ok:
		return &RefusedError{fmt.Errorf("the workspace has changed too much: %v", limit)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("copy the workspace: %w", err)
}

// copyLimits returns how much may be copied for a draft: half of what is free on the disk, no more than its subject may
// hold in all, and with a name no more than the others that have one leave of that. The caller holds the subject's lock.
func (m *Manager) copyLimits(d *draft) (l replica.Limits, err error) {
	l.Entries, l.Depth = admission.MaxCopied, maxCopyDepth
	subject := admission.SubjectOf(d.rec.Clone)
	if err := m.admission.OneMore(subject); err != nil {
		return l, &RefusedError{err}
	}
	most, _ := m.config.MaxSize(subject)
	if l.Bytes, err = admission.MayCopy(m.config.Root, most, 2); err != nil || d.rec.Name == "" {
		return l, err
	}
	switch left, full := m.admission.Left(d.rec); {
	case left <= 0:
		return l, &RefusedError{full}
	case left <= l.Bytes:
		l.Bytes, d.full = left, full
	}
	return l, nil
}

// CatchUp makes a draft equal to its workspace, which nobody should write to meanwhile. After an error the draft is
// dropped. The error is a *RefusedError, or of the disk.
func (m *Manager) CatchUp(ctx context.Context, id string) (Copied, error) {
	d, done, err := m.draftOf(ctx, id)
	if err != nil {
		return Copied{}, err
	}
	defer done()
	copying, cancel := d.during(ctx)
	defer cancel()
	began := m.config.Now()
	var result replica.Result
	if d.room, err = admission.HalfOfFree(m.config.Root); err == nil {
		result, err = d.copy.Finish(copying)
	}
	if err == nil && d.hold.Context().Err() != nil { // a Mount may have taken the workspace away meanwhile
		err = context.Cause(d.hold.Context())
	}
	if err != nil {
		err = errors.Join(d.copyError(copying, err), m.dropDraft(ctx, d))
	}
	c := Copied{ID: id, Of: d.rec, Result: result}
	m.config.observe(ctx, Event{Step: StepCaughtUp, Record: d.rec, Copied: c, Took: m.config.Now().Sub(began), Err: err})
	return c, err
}

// Keep makes a checkpoint of a draft, which is on disk then, with its layers. After an error the draft is dropped.
func (m *Manager) Keep(ctx context.Context, id string) (meta.Workspace, error) {
	d, done, err := m.draftOf(ctx, id)
	if err != nil {
		return meta.Workspace{}, err
	}
	defer done()
	if err := d.w.clone.WithRoom(ctx, clone.FewFiles, func() error { return m.keepDraft(ctx, d) }); err != nil {
		err = errors.Join(err, m.dropDraft(ctx, d))
		m.config.observe(ctx, Event{Step: StepMade, Record: d.rec, Err: err})
		return meta.Workspace{}, err
	}
	m.endDraft(d)
	m.config.observe(ctx, Event{Step: StepMade, Record: d.rec})
	m.config.Log.WithContext(ctx).WithFields(map[string]any{"volume": d.rec.Volume, "checkpoint": d.rec.ID}).Info("a checkpoint was made")
	if d.rec.Changed == nil {
		m.reaper.measureSoon(ctx, d.w)
	} else {
		m.reaper.flattenSoon(d.w)
	}
	return d.rec, nil
}

func (m *Manager) keepDraft(ctx context.Context, d *draft) error {
	d.rec.EndedAt = m.config.Now()
	if err := errors.Join(m.config.Warm.AwaitDurable(ctx, d.rec.Clone, d.rec.Warm), m.config.Clones.Sync(ctx)); err != nil {
		return err
	}
	failpoint.Hit("workspace/draft/synced")
	put := func() error {
		if err := mounter.PutManifest(m.mounter.Manifest(d.rec), d.rec, true); err != nil {
			return err
		}
		if err := m.config.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(d.rec) }); err != nil {
			return err
		}
		failpoint.Hit("workspace/draft/recorded")
		m.records.put(d.w, d.rec)
		return nil
	}
	if d.rec.Name == "" {
		return put()
	}
	measuring, stop := d.during(ctx) // a Mount of the volume does not wait for it
	defer stop()
	if err := m.reaper.measureNow(measuring, d.rec.From...); err != nil {
		return err
	}
	found, err := m.reaper.survey(measuring, d.rec, nil)
	if err != nil {
		return err
	}
	d.rec.Changed, d.rec.Size = &found.Files, meta.Measured{Size: found.Size, At: m.config.Now()}
	return namedError(m.admission.Name(ctx, d.rec, put))
}
