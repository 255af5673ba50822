package workspace

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work/keylock"
	"github.com/helmdeck/repos/internal/workspace/mounter"
)

// records has the records of all workspaces, in memory and in the database, and the index
// of their leases.
type records struct {
	config  *Config
	mounter *mounter.Mounter
	locks   keylock.Locks[string] // one for each workspace, held while its record changes

	mu     sync.Mutex            // never held over I/O
	all    map[string]*workspace // by ID, also those that Open is making
	leases map[Lease]*workspace
	stands meta.Standing // of all
	reaped chan struct{} // closed when a workspace is no longer an ended one; nil if nobody waits
}

// workspace is a workspace in memory. The fields below id are guarded by records.mu.
type workspace struct {
	id string
	// rec is replaced as a whole, by commit. Its slices and maps never change.
	rec    meta.Workspace
	clone  *clone.Clone // nil for an unknown clone, whose layers are unknown too
	reaped bool         // it has a reaper; only an ended workspace has one
	// inherited has the IDs of the leases that an earlier process gave, or that an earlier
	// engine asked for. The value is true if a Lookup has verified the lease already, or need
	// not wait.
	inherited map[string]bool
	// leased is when this process last gave it a lease, by the monotonic clock; zero for never.
	leased time.Time
	holds  map[*Hold]bool // of those who look at its files
	// left says why the last publication of its cache left things out, while it lived, and forecast why the next one would.
	left, forecast []string
	// unsaved is set by NewManager if the database has another phase. Sweep commits it.
	unsaved bool
}

func newWorkspace(id string, c *clone.Clone) *workspace {
	return &workspace{id: id, clone: c, inherited: make(map[string]bool), holds: make(map[*Hold]bool)}
}

// put gives a new or known workspace a record, and updates the index of leases. It commits nothing.
func (r *records) put(w *workspace, rec meta.Workspace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[w.id] = w
	for _, id := range rec.Leases {
		if !w.rec.Leases.Has(id) {
			w.leased = time.Now()
		}
	}
	for _, id := range w.rec.Leases {
		delete(r.leases, Lease{w.rec.Volume, id})
	}
	for _, id := range rec.Leases {
		r.leases[Lease{rec.Volume, id}] = w
	}
	maps.DeleteFunc(w.inherited, func(id string, _ bool) bool { return !rec.Leases.Has(id) })
	w.reaped = w.reaped && rec.Phase == meta.Ended
	if w.rec.Phase == meta.Ended && rec.Phase != meta.Ended {
		r.announceReaped()
	}
	r.stands.Add(&w.rec, -1)
	r.stands.Add(&rec, 1)
	w.rec = rec
}

// mountedOn is meta.Standing.On.
func (r *records) mountedOn(ids ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stands.On(ids...)
}

// nextReaped returns a channel that is closed when the next ended workspace becomes a checkpoint
// or is removed.
func (r *records) nextReaped() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reaped == nil {
		r.reaped = make(chan struct{})
	}
	return r.reaped
}

// announceReaped closes the channel of nextReaped, with mu held.
func (r *records) announceReaped() {
	if r.reaped != nil {
		close(r.reaped)
		r.reaped = nil
	}
}

// drop forgets a workspace that has no leases.
func (r *records) drop(w *workspace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, w.id)
	r.stands.Add(&w.rec, -1)
	r.announceReaped()
}

// each calls f with every workspace, with mu held.
func (r *records) each(f func(w *workspace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		f(w)
	}
}

// markReaped notes that a workspace has a reaper. It reports whether it had none.
func (r *records) markReaped(w *workspace) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, w.reaped = !w.reaped, true
	return first
}

// markSaved notes that the caller commits a workspace's phase if it is unsaved.
func (r *records) markSaved(w *workspace) (unsaved, reaped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unsaved, w.unsaved = w.unsaved, false
	return unsaved, w.reaped
}

// noteLeft notes why a publication of a workspace's cache left things out.
func (r *records) noteLeft(w *workspace, left []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.left = left
}

// noteForecast notes why the next publication of a workspace's cache would leave things out.
func (r *records) noteForecast(w *workspace, forecast []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.forecast = forecast
}

// gone reports whether a workspace was removed.
func (r *records) gone(w *workspace) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[w.id] != w
}

// get returns a workspace's record as it is now.
func (r *records) get(w *workspace) meta.Workspace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.rec
}

// leased returns the workspace of a lease; nil if the lease is unknown.
func (r *records) leased(l Lease) *workspace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[l]
}

// lookUp returns the workspace with an ID. The error is a *NoCheckpointError.
func (r *records) lookUp(id string) (*workspace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.all[id]; w != nil {
		return w, nil
	}
	return nil, &NoCheckpointError{ID: id}
}

// change calls f to edit a workspace's record, and commits the result. f only edits: it neither waits nor
// changes anything else. If with is not nil, change calls it in the same transaction. Changes of one workspace
// follow one another. ctx is for the log, and its end does not matter. After an error, which may be f's, nothing
// has changed.
func (r *records) change(ctx context.Context, w *workspace, f func(rec *meta.Workspace) error, with func(*meta.Tx) error) (meta.Workspace, error) {
	before, unlock, err := r.begin(w)
	if err != nil {
		return before, err
	}
	defer unlock()
	rec := before
	if err := f(&rec); err != nil {
		return before, err
	}
	return r.commit(ctx, w, before, rec, with)
}

// begin prevents changes of a workspace until unlock, and returns its record: for a caller that decides by it, does
// something, and then calls commit. A workspace that was removed is an error.
func (r *records) begin(w *workspace) (rec meta.Workspace, unlock func(), err error) {
	unlock, err = r.locks.Lock(context.Background(), w.id)
	if err != nil {
		return meta.Workspace{}, nil, err
	}
	if r.gone(w) {
		unlock()
		return meta.Workspace{}, nil, fmt.Errorf("workspace %s: %w", w.id, os.ErrNotExist)
	}
	return r.get(w), unlock, nil
}

// commit replaces the record before, that of begin, by rec. If with is not nil, it is called in the same
// transaction. After an error nothing has changed.
func (r *records) commit(ctx context.Context, w *workspace, before, rec meta.Workspace, with func(*meta.Tx) error) (meta.Workspace, error) {
	if err := meta.CheckTransition(before, rec); err != nil {
		return before, err
	}
	if err := r.handOut(rec); err != nil && rec.Leases.Within(before.Leases) {
		// The workspace has leases of an earlier process. That it has no socket, as on a full
		// disk, must not keep a lease of it from ending.
		r.config.Log.WithContext(ctx).WithError(err).WithField("workspace", w.id).Warn("serve the credential helper of a workspace")
	} else if err != nil {
		return before, err
	}
	r.updateManifest(ctx, before, rec)
	err := r.config.DB.Update(func(tx *meta.Tx) error {
		if err := tx.PutWorkspace(rec); err != nil || with == nil {
			return err
		}
		return with(tx)
	})
	if err != nil {
		r.updateManifest(ctx, rec, before)
		r.endHandout(before)
		return before, err
	}
	r.put(w, rec)
	r.endHandout(rec)
	return rec, nil
}

// list returns the records of the workspaces for which match is true, oldest first. It
// calls match with mu held.
func (r *records) list(match func(w *workspace) bool) []meta.Workspace {
	var list []meta.Workspace
	r.each(func(w *workspace) {
		if match(w) {
			list = append(list, w.rec)
		}
	})
	slices.SortFunc(list, func(a, b meta.Workspace) int { return a.MountedAt.Compare(b.MountedAt) })
	return list
}

// joinable returns the workspace that a volume shares or keeps, if there is one, and the
// ended ones that it shared until their overlay was gone.
func (r *records) joinable(volume string) (w *workspace, orphans []*workspace) {
	r.each(func(o *workspace) {
		switch {
		case o.rec.Volume != volume || o.rec.Private():
		case o.rec.Phase.Live():
			w = o
		case o.rec.Phase == meta.Ended && o.rec.Orphan:
			orphans = append(orphans, o)
		}
	})
	return w, orphans
}

// note calls f to edit a record in memory alone, unless the workspace is a checkpoint by now. f must be short.
func (r *records) note(ctx context.Context, w *workspace, f func(rec *meta.Workspace)) {
	unlock, err := r.locks.Lock(ctx, w.id)
	if err != nil {
		return
	}
	defer unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.rec.Phase != meta.Checkpoint {
		f(&w.rec)
	}
}

// updateManifest writes a changed record. The end of a workspace needs no manifest: without
// its mount, or without its volume, a workspace has ended. A failure is only logged,
// because manifests matter only if the database is lost, and the disk may be full.
func (r *records) updateManifest(ctx context.Context, before, rec meta.Workspace) {
	if rec.Phase == meta.Ended {
		return
	}
	synced := before.Phase.Live() != rec.Phase.Live() || before.Volume != rec.Volume || before.Name != rec.Name || before.Message != rec.Message ||
		len(before.Merged) != len(rec.Merged)
	if err := mounter.PutManifest(r.mounter.Manifest(rec), rec, synced); err != nil {
		r.config.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("write the manifest of a workspace")
	}
}
