package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/workspace/admission"
	"github.com/helmdeck/repos/internal/workspace/backlog"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/internal/workspace/replica"
)

const (
	// flattenAt is on how many others a checkpoint stands when it is merged with them, if nothing is mounted on any of
	// them: files of those are copied, so this waits until flattenAnyway. With fewer, each checkpoint makes all
	// directories of the others more often; with more, less is left of maxFrom for what is made while it is merged. A
	// git status takes a third longer on 16 than on none.
	flattenAt     = maxFrom / 2
	flattenAnyway = maxFrom * 3 / 4
	// maxMerged bounds the entries of all uppers that are merged: the names of a directory, with those of the directories
	// above, are in memory, some 100 bytes for each.
	maxMerged = 1_000_000
	// flattenWait is how long a Mount waits that would fail otherwise.
	flattenWait = 5 * time.Second
	// flattenLife is how long a merge may take, because the others of all subjects wait for it, and flattenAgain the pause
	// after one that failed: the next one would take as long.
	flattenLife  = 5 * time.Minute
	flattenAgain = 30 * time.Minute
)

// newBacklog returns the backlog of checkpoints to flatten. The one that stands on most others comes first: the next
// workspace probably begins with it, and is nearest to maxFrom.
func (r *reaper) newBacklog() *backlog.Backlog[*workspace] {
	return &backlog.Backlog[*workspace]{
		Go:      r.config.Work.Go,
		Subject: func(w *workspace) string { return admission.SubjectOf(r.records.get(w).Clone) },
		Urgency: func(w *workspace) int { return len(r.records.get(w).From) },
		Cause: func(w *workspace) string { // the lowest one, and whether files are copied
			stack := r.records.get(w).Stack()
			return fmt.Sprint(stack[len(stack)-1], r.records.mountedOn(stack...))
		},
		Do: func(ctx context.Context, w *workspace) error {
			ctx = origin.ForVolume(ctx, r.records.get(w).VolumeID)
			err := r.flatten(ctx, w)
			if err == nil || ctx.Err() != nil || r.records.gone(w) {
				return nil
			}
			r.config.Log.WithContext(ctx).WithError(err).WithField("checkpoint", w.id).
				Warn("merge a checkpoint with those below it: it stands on them as before, and the next one on it tries again")
			return err
		},
		Pause: flattenAgain,
	}
}

// flattens reports whether a checkpoint stands on so many others that it is to be merged with them now.
func (r *reaper) flattens(rec meta.Workspace) bool {
	n := len(rec.From)
	return rec.Phase == meta.Checkpoint && (n >= flattenAnyway || n >= flattenAt && !r.records.mountedOn(rec.Stack()...))
}

// flattenSoon flattens a checkpoint in the background, if it is time and that has not failed lately. It reports whether
// it does.
func (r *reaper) flattenSoon(w *workspace) bool {
	return r.flattens(r.records.get(w)) && r.toFlatten.Add(w)
}

// flatten merges a checkpoint with those below it. See the documentation of package mounter.
func (r *reaper) flatten(ctx context.Context, w *workspace) error {
	if r.records.gone(w) || w.clone == nil || !r.flattens(r.records.get(w)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flattenLife) // others wait for their turn
	defer cancel()
	stack := r.records.get(w).Stack()
	if err := r.measureNow(ctx, stack...); err != nil { // what is measured is only its own, so that comes first
		return err
	}
	before := r.records.get(w)
	limit, _ := r.config.MaxSize(admission.SubjectOf(before.Clone))
	most, err := admission.MayCopy(r.config.Root, limit, 4) // others need room too
	if err != nil {
		return err
	}
	o := replica.Options{
		Limits:  replica.Limits{Bytes: most, Entries: maxMerged, Depth: maxCopyDepth},
		Mounted: func(upper int) bool { return r.records.mountedOn(stack[upper]) },
	}
	if o.Room, err = admission.HalfOfFree(r.config.Root); err != nil {
		return err
	}
	made, err := r.mounter.Merge(ctx, w.clone, before, o)
	if err != nil {
		return err
	}
	failpoint.Hit("workspace/flatten/merged")
	merged := r.records.mergedBy(before)
	become := func(rec *meta.Workspace) {
		rec.From, rec.OnMerged, rec.Merged = nil, false, merged
		rec.Size.Size, rec.Whole = rec.Size.Add(made.Made), made.Whole // links are those of others
	}
	after := before
	become(&after)
	// A database that is rebuilt from manifests must find this one, before what it replaces goes.
	if err := mounter.PutManifest(r.mounter.Manifest(after), after, true); err != nil {
		return err
	}
	if _, err = r.records.change(ctx, w, func(rec *meta.Workspace) error { become(rec); return nil }, nil); err != nil {
		return err
	}
	failpoint.Hit("workspace/flatten/recorded")
	r.config.Log.WithContext(ctx).WithField("checkpoint", w.id).Infof("a checkpoint was merged with the %d below it: it stands on none any more", len(before.From))
	r.freed(ctx, stack...)
	return nil
}

// mergedBy returns the IDs of the checkpoints whose uppers a merge of one has: also of those that one below it had
// merged, if they are still there. Who they were does not matter when they are gone: the one below it has inherited
// what they had.
func (r *records) mergedBy(rec meta.Workspace) []string {
	ids := slices.Clone(rec.From)
	if w, err := r.lookUp(ids[len(ids)-1]); rec.OnMerged && err == nil { // as long as this one stands on it
		ids = append(ids, r.get(w).Merged...)
	}
	return slices.DeleteFunc(ids, func(id string) bool { _, err := r.lookUp(id); return err != nil })
}

// freed is called when something that stood on checkpoints does not any more, or is not mounted any more.
func (r *reaper) freed(ctx context.Context, ids ...string) {
	if len(ids) > 0 {
		r.dropUnmerged(ctx, ids...)
		r.flattenWaiting()
	}
}

// flattenWaiting flattens the checkpoints that waited until nothing was mounted below them: not those that others stand
// on, or have merged, because the next workspace probably begins with none of them.
func (r *reaper) flattenWaiting() {
	var long []*workspace
	below := make(map[string]bool)
	r.records.each(func(w *workspace) {
		// One with fewer has none below it that waits.
		if ids := slices.Concat(w.rec.From, w.rec.Merged); w.rec.Phase == meta.Checkpoint && len(ids) >= flattenAt {
			long = append(long, w)
			for _, id := range ids {
				below[id] = true
			}
		}
	})
	for _, w := range long {
		if !below[w.id] {
			r.flattenSoon(w)
		}
	}
}

// dropUnmerged removes what merged checkpoints were before, unless something still stands on it.
func (r *reaper) dropUnmerged(ctx context.Context, ids ...string) {
	for _, id := range ids {
		w, err := r.records.lookUp(id)
		if err != nil || len(r.records.get(w).Merged) == 0 {
			continue
		}
		rec, unlock, err := r.records.begin(w) // so that nothing begins to stand on it
		if err == nil {
			if !r.records.onUnmerged(id) {
				err = r.removeUnmerged(ctx, w, rec)
			}
			unlock()
		}
		if err != nil && !r.records.gone(w) {
			r.config.Log.WithContext(ctx).WithError(err).WithField("checkpoint", id).Warn("remove what a merged checkpoint was before: the next start tries again")
		}
	}
}

// removeUnmerged removes what a merged checkpoint was before.
func (r *reaper) removeUnmerged(ctx context.Context, w *workspace, rec meta.Workspace) error {
	if err := r.mounter.RemoveUnmerged(rec); err != nil {
		return err
	}
	before := rec
	if !rec.DropUnmerged() {
		return nil
	}
	_, err := r.records.commit(ctx, w, before, rec, nil)
	return err
}

// onUnmerged reports whether anything stands on what a checkpoint was before it was merged, or looks at it.
func (r *records) onUnmerged(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		if w.rec.NeedsUnmerged(id) {
			return true
		}
		for held := range w.holds {
			if held.Record.NeedsUnmerged(id) {
				return true
			}
		}
	}
	return false
}

// bequeath makes what counts for a checkpoint that is going to be removed count for those that have its files too, the
// oldest first. Each transaction leaves the sum as it is. The caller prevents changes of it; only newer ones have its
// files, so no two callers wait for one another.
func (r *reaper) bequeath(ctx context.Context, w *workspace) (rec meta.Workspace, err error) {
	for _, heir := range r.records.list(func(o *workspace) bool { return slices.Contains(o.rec.Merged, w.id) }) {
		o, err := r.records.lookUp(heir.ID)
		if err != nil {
			continue
		}
		rec := r.records.get(w)
		_, err = r.records.change(ctx, o, func(heir *meta.Workspace) error { heir.Inherit(&rec); return nil },
			func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return rec, err
		}
		r.records.put(w, rec)
	}
	return r.records.get(w), nil
}

// awaitFlat waits for a checkpoint that stands on maxFrom others to be flattened, for flattenWait.
func (r *reaper) awaitFlat(ctx context.Context, w *workspace) error {
	// The caller looks again, and finds why it can't begin with one that is gone or no checkpoint yet.
	short := func(rec meta.Workspace) bool {
		return len(rec.From) < maxFrom || rec.Phase != meta.Checkpoint || r.records.gone(w)
	}
	rec := r.records.get(w)
	if short(rec) {
		return nil
	}
	soon := r.flattenSoon(w)
	for began := time.Now(); soon && time.Since(began) < flattenWait; {
		if err := sleep(ctx, heldFirst); err != nil {
			return err
		}
		if short(r.records.get(w)) {
			return nil
		}
	}
	return &RefusedError{fmt.Errorf("checkpoint %q stands on %d others, and no more are possible until they are merged: run it again in a minute; "+
		"if the log of the plugin says that they can't be merged, bring its changes out (docker repos push), or begin with one of those below it (docker repos checkpoints show)",
		rec.ID, len(rec.From))}
}
