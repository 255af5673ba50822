package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/mounter"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/upper"
	"github.com/helmdeck/repos/internal/warm"
)

const (
	// reapFirst and reapMax bound the wait between two questions to the kernel
	// whether an upper is in use. A question costs two system calls. A container that
	// outlived a disabled plugin or a killed engine may use the upper for days.
	reapFirst = 100 * time.Millisecond
	reapMax   = 15 * time.Second
	// failedMax bounds the wait after a failure, because another try costs more than a
	// question, and a line in the log.
	failedMax = 5 * time.Minute
)

// reaper makes ended workspaces discards, or removes them, when they are free.
type reaper struct {
	*Config
	records *records
	mounter *mounter.Mounter
	meter   *meter
	max     time.Duration // reapMax, except in tests
}

// start starts the reaper of an ended workspace, unless it has one. So each workspace
// has one reaper at a time, which is done before the workspace can be restored. release,
// which is Detach's, is called first, in the background.
func (r *reaper) start(ctx context.Context, w *workspace, release func()) {
	ctx = origin.ForVolume(ctx, r.records.get(w).VolumeID)
	first := r.records.markReaped(w)
	settled := func() {}
	if rec := r.records.get(w); r.promotes(rec) {
		settled = r.Warm.Ending(rec.Clone, rec.Warm)
	}
	r.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		defer settled()
		release()
		if first {
			r.reap(ctx, w, settled)
		}
	}))
}

// reap waits until the kernel says that no container uses an ended workspace, and then
// makes it a discard or removes it. It calls held if that takes long. A step that fails,
// as on a full disk, is tried again, because the workspace holds its layers and its clone
// until it is removed. If ctx ends first, the next start continues.
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
			if err = r.discardOrRemove(ctx, w); err == nil {
				return
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			held()
			most = failedMax
			r.Log.WithContext(ctx).WithError(err).Warnf("workspace %s has ended and can't be removed: it stays, and this is tried again", w.id)
		case wait == 2*reapFirst:
			held()
			if viewed := r.records.viewed(w); viewed != nil {
				r.Log.WithContext(ctx).WithError(viewed).Infof("workspace %s has ended: it is removed when nobody looks at it any more", w.id)
				break
			}
			r.Log.WithContext(ctx).Infof("workspace %s is still used by a container that kept it: it is removed when that ends", w.id)
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// discardOrRemove makes a free workspace a discard if it has changes, and else removes it.
func (r *reaper) discardOrRemove(ctx context.Context, w *workspace) error {
	if r.records.gone(w) {
		return nil
	}
	rec := r.records.get(w)
	r.meter.cacheSoon(rec)
	if err := r.promote(ctx, w); err != nil {
		return err
	}
	// Without options it is unknown what the workspace was. An upper of an earlier boot was
	// never synced, unless it was kept.
	if r.DiscardTTL > 0 && rec.Options != nil && (rec.Kept() || rec.Boot == r.Clones.Boot) {
		changed, err := upper.Changed(ctx, r.mounter.Upper(rec), rec, r.mounter.Lower(w.clone, rec))
		switch {
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		case err == nil && changed:
			return r.discard(ctx, w)
		}
	}
	return r.remove(w, false)
}

// promotes reports whether the warm paths of a workspace are promoted at its end. Those of
// a kept workspace belong to its volume. An upper of an earlier boot may not be complete.
func (r *reaper) promotes(rec meta.Workspace) bool {
	return len(rec.Warm) > 0 && !rec.Kept() && rec.Boot == r.Clones.Boot
}

// promote promotes the warm paths of an ended workspace that is free. The error is ctx's;
// other errors are logged.
func (r *reaper) promote(ctx context.Context, w *workspace) error {
	rec := r.records.get(w)
	if !r.promotes(rec) || w.clone == nil {
		return nil
	}
	err := r.Warm.Promote(ctx, warm.Ended{
		Clone: rec.Clone, Upper: r.mounter.Upper(rec), UID: rec.UID, GID: rec.GID, Ref: rec.Ref, Text: rec.Options["warm_key"],
		Paths: rec.Warm, Tree: w.clone.Trees.Lower(rec.Chain, rec.GitLayer),
	})
	if err != nil && ctx.Err() == nil {
		r.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("promote warm layers")
		return nil
	}
	return err
}

// discard makes a workspace that has ended and is free a discard. Its upper and its layers
// are on disk before the record says so.
func (r *reaper) discard(ctx context.Context, w *workspace) error {
	// A volatile mount leaves this mark, and the kernel refuses to mount an upper that has
	// it, because the upper may not be on disk. It is, after the sync below.
	rec := r.records.get(w)
	mark := filepath.Join(r.mounter.Dir(rec), "work", "work", "incompat")
	if err := os.RemoveAll(mark); err != nil {
		return err
	}
	failpoint.Hit("workspace/discard/unmarked")
	if err := errors.Join(r.Warm.Settle(ctx, rec.Clone, rec.Warm), r.Clones.Sync(ctx)); err != nil {
		return err
	}
	failpoint.Hit("workspace/discard/synced")
	rec, err := r.records.change(ctx, w, func(rec *meta.Workspace) error {
		rec.Phase, rec.Orphan, rec.Lost, rec.Changed, rec.Size = meta.Discarded, false, nil, nil, meta.Measured{}
		return nil
	}, nil)
	failpoint.Hit("workspace/discard/recorded")
	if err != nil {
		return err
	}
	r.Log.WithContext(ctx).WithFields(map[string]any{"volume": rec.Volume, "discard": rec.ID}).
		Info("a workspace with changes has ended: it is kept as a discard")
	r.measureSoon(ctx, w)
	return nil
}

// countRest is how long the count of a discard rests, in percent of the time that it
// works. It is long because nobody waits for the count.
const countRest = 300

// measureSoon counts and measures a discard in the background.
func (r *reaper) measureSoon(ctx context.Context, w *workspace) {
	r.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		q := disk.Query{Skip: []string{".git", tree.CacheLink}, Pace: disk.NewPace(countRest), Budget: disk.Budget}
		found, err := q.Take(ctx, r.mounter.Upper(r.records.get(w)))
		if err == nil || disk.AtLeast(err) {
			_, err = r.records.change(ctx, w, func(rec *meta.Workspace) error {
				if rec.Phase == meta.Discarded {
					rec.Changed, rec.Size = &found.Files, meta.Measured{Size: found.Size, At: r.Now()}
				}
				return nil
			}, nil)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
			r.Log.WithContext(ctx).WithError(err).WithField("discard", w.id).Warn("count the changes of a discard: the next start tries again")
		}
	}))
}

// remove removes the record and the directory of a workspace that nobody uses. If discard
// is set it removes only a discard: any other workspace is an error, as isDiscard says.
func (r *reaper) remove(w *workspace, discard bool) error {
	unlock, err := r.records.locks.Lock(context.Background(), w.id)
	if err != nil {
		return err
	}
	defer unlock()
	rec := r.records.get(w)
	switch {
	case r.records.gone(w) && discard:
		return &NoDiscardError{w.id}
	case r.records.gone(w):
		return nil
	case discard:
		if err := isDiscard(rec); err != nil {
			return err
		}
	}
	if err := r.records.viewed(w); err != nil {
		return err
	}
	if err := r.DB.Update(func(tx *meta.Tx) error { return tx.DeleteWorkspace(w.id) }); err != nil {
		return err
	}
	failpoint.Hit("workspace/remove/recorded")
	toTrash := func() error { return r.Trash.Clear(r.mounter.Dir(rec), "workspace", rec.Size.Size) }
	if err = toTrash(); err != nil { // the retry is safe: no other workspace gets this ID
		r.Work.Go(func(ctx context.Context) { trash.Again(ctx, toTrash) })
	}
	failpoint.Hit("workspace/remove/renamed")
	r.records.drop(w)
	if w.clone != nil {
		w.clone.Trees.Drop(rec.Chain, rec.GitLayer)
	}
	r.Warm.Drop(rec.Clone, rec.Warm)
	return err
}
