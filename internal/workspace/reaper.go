package workspace

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/backlog"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

const (
	// reapFirst and reapMax bound the wait between two questions to the kernel whether an upper is in use. A question
	// costs two system calls. A container that outlived a disabled plugin or a killed engine may use the upper for days.
	reapFirst = 100 * time.Millisecond
	reapMax   = 15 * time.Second
	// failedMax bounds the wait after a failure, as another try costs more than a question, and a line in the log.
	failedMax = 5 * time.Minute
)

// reaper makes ended workspaces checkpoints, or removes them, when they are free.
type reaper struct {
	config    *Config
	records   *records
	mounter   *mounter.Mounter
	toFlatten *backlog.Backlog[*workspace]
	max       time.Duration // reapMax, except in tests
}

// start starts the reaper of an ended workspace, unless it has one. So each workspace has one reaper at a time, which
// is done before others can begin with the checkpoint. release, which is Detach's, is called first, in the background.
func (r *reaper) start(ctx context.Context, w *workspace, release func()) {
	ctx = origin.ForVolume(ctx, r.records.get(w).VolumeID)
	first := r.records.markReaped(w)
	done := func() {}
	if rec := r.records.get(w); r.promotes(rec) && volume.PublishOf(rec.Options) != volume.PublishNever {
		done = r.config.Warm.Ending(rec.Clone, mounter.Carried(rec))
	}
	r.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		defer done()
		release()
		if first {
			r.reap(ctx, w, done)
		}
	}))
}

// reap waits until the kernel says that no container uses an ended workspace, and then makes it a checkpoint or
// removes it. It calls held if that takes long. A step that fails, as on a full disk, is tried again, because the
// workspace holds its layers and its clone until it is removed. If ctx ends first, the next start continues.
func (r *reaper) reap(ctx context.Context, w *workspace, held func()) {
	most := r.max
	for wait := reapFirst; ; wait = min(2*wait, most) {
		busy := false
		release, err := r.mounter.Detach(ctx, r.records.get(w)) // in case it failed before
		release()
		if err == nil {
			busy, err = r.mounter.Busy(r.records.get(w))
			busy = busy || r.records.viewed(w) != nil // also one that was parked, whose view the kernel does not count
		}
		if err == nil && !busy {
			if err = r.checkpointOrRemove(ctx, w, held); err == nil {
				return
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			held()
			most = failedMax
			r.config.Log.WithContext(ctx).WithError(err).Warnf("workspace %s has ended and can't be removed: it stays, and this is tried again", w.id)
		case wait == 2*reapFirst:
			held()
			if viewed := r.records.viewed(w); viewed != nil {
				r.config.Log.WithContext(ctx).WithError(viewed).Infof("workspace %s has ended: it is removed when nobody looks at it any more", w.id)
				break
			}
			r.config.Log.WithContext(ctx).Infof("workspace %s is still used by a container that kept it: it is removed when that ends", w.id)
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// checkpointOrRemove makes a free workspace a checkpoint if it has changes, or if a Rewind ended it, and else removes it. It
// calls promoted when its warm paths were promoted.
func (r *reaper) checkpointOrRemove(ctx context.Context, w *workspace, promoted func()) error {
	if r.records.gone(w) {
		return nil
	}
	rec := r.records.get(w)
	if err := r.promote(ctx, w, promoted); err != nil {
		return err
	}
	failpoint.Hit("workspace/reap/promoted")
	if _, err := upper.TakeMark(r.mounter.Upper(rec)); err != nil { // a checkpoint has none
		r.config.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("remove the mark of an ended workspace")
	}
	// Without options it is unknown what the workspace was. An upper of an earlier boot was
	// never synced, unless it was kept.
	if r.config.CheckpointTTL > 0 && rec.Options != nil && (rec.Kept() || rec.Boot == r.config.Boot) {
		changed, err := r.mounter.Changed(ctx, w.clone, rec, r.promotes(rec))
		switch {
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		// What is no change for the end of a container, such as another index, may be one for who asked to go back.
		case err == nil && (changed || rec.Made == meta.MadeByRewind):
			return r.checkpoint(ctx, w)
		}
	}
	return r.remove(ctx, w, nil)
}

// promotes reports whether the warm paths of a workspace are promoted at its end. Those of a kept workspace belong to
// its volume: it publishes what is in its cache at its last release. An upper of an earlier boot may not be complete.
func (r *reaper) promotes(rec meta.Workspace) bool {
	return len(mounter.Carried(rec)) > 0 && !rec.Kept() && rec.Boot == r.config.Boot
}

// promote promotes the warm paths of an ended workspace that is free. Those that nobody is to get stay. The error is
// ctx's, or about the mark of publish=marked; other errors are logged.
func (r *reaper) promote(ctx context.Context, w *workspace, promoted func()) error {
	rec := r.records.get(w)
	if !r.promotes(rec) || w.clone == nil {
		return nil
	}
	if whole, err := overlay.Marked(r.mounter.Upper(rec)); err == nil && !whole {
		return nil // it has lost which files were removed, so it is no layer for others
	}
	ended := r.mounter.Ended(w.clone, rec)
	ended.Promoted = promoted
	err := r.mounter.Unlimit(rec) // the plugin completes files of it, and nobody else writes to it any more
	if err != nil {
		return err
	}
	switch volume.PublishOf(rec.Options) {
	case volume.PublishAlways:
		ended.Publish = true
	case volume.PublishMarked:
		if ended.Label, ended.Marked, err = upper.ReadMark(ended.Upper); err != nil {
			return err
		}
		ended.Publish = ended.Marked
	}
	err = r.config.Warm.Promote(ctx, ended)
	if err != nil && ctx.Err() == nil {
		r.config.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("promote warm layers")
		return nil
	}
	return err
}

// checkpoint makes a workspace that has ended and is free a checkpoint. Its upper and its layers
// are on disk before the record says so.
func (r *reaper) checkpoint(ctx context.Context, w *workspace) error {
	// A volatile mount leaves this mark, and the kernel refuses to mount an upper that has
	// it, because the upper may not be on disk. It is, after the sync below.
	rec := r.records.get(w)
	mark := filepath.Join(r.mounter.Dir(rec), "work", "work", "incompat")
	if err := os.RemoveAll(mark); err != nil {
		return err
	}
	failpoint.Hit("workspace/checkpoint/unmarked")
	if err := errors.Join(r.config.Warm.AwaitDurable(ctx, rec.Clone, rec.Warm), r.config.Clones.Sync(ctx)); err != nil {
		return err
	}
	failpoint.Hit("workspace/checkpoint/synced")
	rec, err := r.records.change(ctx, w, func(rec *meta.Workspace) error {
		rec.Phase, rec.Orphan, rec.Lost, rec.Changed, rec.Size = meta.Checkpoint, false, nil, nil, meta.Measured{}
		return nil
	}, nil)
	failpoint.Hit("workspace/checkpoint/recorded")
	if err != nil {
		return err
	}
	r.config.Log.WithContext(ctx).WithFields(map[string]any{"volume": rec.Volume, "checkpoint": rec.ID}).
		Info("a workspace with changes has ended: it is kept as a checkpoint")
	r.config.observe(ctx, Event{Step: StepMade, Record: rec})
	r.freed(ctx, rec.From...)
	r.measureSoon(ctx, w)
	return nil
}

// countRest is how long the count of a checkpoint rests, in percent of the time that it
// works. It is long because nobody waits for the count.
const countRest = 300

// measureSoon counts and measures a checkpoint in the background. Then it may be merged: what counts is its own.
func (r *reaper) measureSoon(ctx context.Context, w *workspace) {
	r.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		defer r.flattenSoon(w)
		err := r.measure(ctx, w, disk.NewPace(countRest))
		if err != nil && !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
			r.config.Log.WithContext(ctx).WithError(err).WithField("checkpoint", w.id).Warn("count the changes of a checkpoint: the next start tries again")
		}
	}))
}

// measureNow measures those of some checkpoints that were not measured yet.
func (r *reaper) measureNow(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		w, err := r.records.lookUp(id)
		if err != nil || r.records.get(w).Phase != meta.Checkpoint || r.records.get(w).Changed != nil {
			continue
		}
		if err := r.measure(ctx, w, nil); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// measure counts and measures a checkpoint. pace may be nil.
func (r *reaper) measure(ctx context.Context, w *workspace, pace *disk.Pace) error {
	found, err := r.survey(ctx, r.records.get(w), pace)
	if err != nil {
		return err
	}
	_, err = r.records.change(ctx, w, func(rec *meta.Workspace) error {
		if rec.Phase == meta.Checkpoint && rec.Changed == nil { // another one may have been faster, and a merge since
			rec.Changed, rec.Size = &found.Files, meta.Measured{Size: found.Size, At: r.config.Now()}
		}
		return nil
	}, nil)
	return err
}

// survey counts and measures the upper of a checkpoint.
func (r *reaper) survey(ctx context.Context, rec meta.Workspace, pace *disk.Pace) (disk.Survey, error) {
	q := disk.Query{Skip: []string{".git"}, Pace: pace, Budget: disk.Budget}
	if volume.HasCacheLink(rec.Options) {
		q.Skip = append(q.Skip, cache.Link)
	}
	found, err := q.Take(ctx, r.mounter.Upper(rec))
	if disk.AtLeast(err) {
		err = nil
	}
	return found, err
}

// remove removes the record and the directory of a workspace that nobody uses, if its record may be removed: may returns
// why not, and may be nil.
func (r *reaper) remove(ctx context.Context, w *workspace, may func(meta.Workspace) error) error {
	removed, rec, err := r.removeAlone(ctx, w, may)
	if removed {
		r.freed(ctx, rec.From...)
	}
	return err
}

// removeAlone is remove without what that is for others.
func (r *reaper) removeAlone(ctx context.Context, w *workspace, may func(meta.Workspace) error) (removed bool, rec meta.Workspace, err error) {
	unlock, err := r.records.locks.Lock(context.Background(), w.id)
	if err != nil {
		return false, rec, err
	}
	defer unlock()
	rec = r.records.get(w)
	switch {
	case r.records.gone(w) && may != nil:
		return false, rec, &NoCheckpointError{ID: w.id}
	case r.records.gone(w):
		return false, rec, nil
	case may != nil:
		if err := may(rec); err != nil {
			return false, rec, err
		}
	}
	if err := cmp.Or(r.records.viewed(w), r.records.standsOn(w.id)); err != nil {
		return false, rec, err
	}
	if rec, err = r.bequeath(ctx, w); err != nil {
		return false, rec, err
	}
	if err := r.config.DB.Update(func(tx *meta.Tx) error { return tx.DeleteWorkspace(w.id) }); err != nil {
		return false, rec, err
	}
	failpoint.Hit("workspace/remove/recorded")
	toTrash := func() error { return r.config.Trash.Clear(r.mounter.Dir(rec), "workspace", rec.Frees()) }
	if err = toTrash(); err != nil { // the retry is safe: no other workspace gets this ID
		r.config.Work.Go(func(ctx context.Context) { trash.Again(ctx, toTrash) })
	}
	failpoint.Hit("workspace/remove/renamed")
	err = errors.Join(err, r.mounter.Unlimit(rec))
	r.records.drop(w)
	r.config.dropLayers(w, rec)
	return true, rec, err
}
