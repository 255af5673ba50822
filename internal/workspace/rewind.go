package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/admission"
)

// Rewind makes the workspace that a volume keeps begin again with a checkpoint of the same clone. What the volume had ends,
// in the same transaction, and becomes a checkpoint. The ID of r's lease does not matter. The error is an
// *InUseError if anybody uses the workspace, a *NoCheckpointError if there is no such checkpoint, a *admission.BudgetError, or a
// *RefusedError.
func (m *Manager) Rewind(ctx context.Context, r Request) (rec meta.Workspace, err error) {
	rec, err = m.rewind(ctx, r)
	e := Event{Step: StepRewound, Record: rec, Err: err}
	if err != nil {
		e.Record = meta.Workspace{Volume: r.Lease.Volume, Clone: r.Clone.Key, Options: r.Options.Map(), From: []string{r.Options.From}}
	}
	m.config.observe(ctx, e)
	return rec, err
}

func (m *Manager) rewind(ctx context.Context, r Request) (meta.Workspace, error) {
	name := r.Lease.Volume
	if m.config.CheckpointTTL == 0 {
		return meta.Workspace{}, &RefusedError{fmt.Errorf("the setting CHECKPOINT_TTL=0 lets nothing be kept, so what volume %q has would be lost: remove it, and begin another volume with the checkpoint", name)}
	}
	done, err := m.admission.Reserve(admission.SubjectOf(r.Clone.Key), name, r.Limit.Bytes)
	if err != nil {
		return meta.Workspace{}, err
	}
	defer done()
	unlock, err := m.volumes.Lock(ctx, name)
	if err != nil {
		return meta.Workspace{}, err
	}
	defer unlock()
	old, _ := m.records.joinable(name)
	if old != nil {
		if err := m.canRewind(ctx, old); err != nil {
			return meta.Workspace{}, err
		}
	}
	rec := m.newRecord(ctx, r)
	w := newWorkspace(rec.ID, r.Clone)
	if err := m.mountNew(ctx, w, &rec, r); err != nil {
		return meta.Workspace{}, err
	}
	failpoint.Hit("workspace/rewind/mounted")
	put := func(tx *meta.Tx) error { return tx.PutWorkspace(rec) }
	if old == nil {
		err = m.config.DB.Update(put)
	} else {
		_, err = m.removeLeases(ctx, old, func(rec *meta.Workspace) error {
			rec.Made = meta.MadeByRewind
			return m.end(rec)
		}, put)
	}
	if err != nil {
		return meta.Workspace{}, errors.Join(err, m.undoNew(ctx, w, rec))
	}
	failpoint.Hit("workspace/rewind/recorded")
	m.records.put(w, rec)
	return rec, nil
}

// canRewind unmounts the workspace that a volume keeps, or returns an *InUseError, after HeldWait if it has no lease: an
// overlay that was unmounted just now ends when its changes are on disk, and its cache may be being published. The caller holds
// the volume's lock.
func (m *Manager) canRewind(ctx context.Context, w *workspace) error {
	waited := time.Duration(0)
	for wait := heldFirst; ; wait = min(2*wait, heldMost) {
		err := m.unmountUnused(ctx, w)
		rec := m.records.get(w)
		if err == nil {
			err = cmp.Or(m.notBusy(rec), m.records.viewed(w))
		}
		used, ok := errors.AsType[*InUseError](err)
		switch {
		case !ok:
			return err
		case len(rec.Leases) > 0 || waited >= m.config.HeldWait:
			return fmt.Errorf("volume %q can't go back while it is in use: end its containers, or start another one that begins with the checkpoint: %w", rec.Volume, used)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		waited += wait
	}
}
