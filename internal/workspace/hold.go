package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// holdLife is how long a workspace is held at most, because what is held can't be evicted or reaped.
const holdLife = 30 * time.Minute

var (
	errHoldLife = fmt.Errorf("looking at the workspace took longer than %v, which is all that is allowed", holdLife)
	errHoldLost = errors.New("the volume is being mounted, and a mount does not wait for those who look at the workspace: run it again")
)

// NoWorkspaceError says that no workspace has an ID.
type NoWorkspaceError struct{ ID string }

func (e *NoWorkspaceError) Error() string { return fmt.Sprintf("there is no workspace %q", e.ID) }

// Hold is a workspace whose files can be read until Release.
type Hold struct {
	Record meta.Workspace // as it was at the beginning; the caller must not change it
	// Root is the mounted overlay as the container sees it (O_PATH); nil if it is not
	// mounted, and so nobody writes to it.
	Root  *os.File
	Upper string
	From  []string // the uppers of the checkpoints below it, topmost first
	Lower []string // its layers, topmost first, the git layer before all others

	ctx    context.Context
	cancel context.CancelCauseFunc
	free   func()
	end    func() // is free without background work: it may take seconds
}

// Context ends with the context that Hold got, when the time is over, and when a Mount needs
// the workspace. Its cause is for users. Whoever has the Hold stops then, and calls Release.
func (h *Hold) Context() context.Context { return h.ctx }

// View mounts the files of a workspace that is not mounted, read-only, as its containers saw them. The caller closes
// the root.
func (h *Hold) View() (*os.File, error) {
	return overlay.View(overlay.Spec{Lower: slices.Concat([]string{h.Upper}, h.From, h.Lower), Metacopy: h.Record.Metacopy})
}

// Release ends a Hold. It may be called more than once.
func (h *Hold) Release() { h.free() }

// Hold keeps the files of a mounted or parked workspace, or of a checkpoint, as they are, except
// for what containers write. A checkpoint that is held can't be evicted, and a
// workspace that ends is reaped when it is not held any more. Nothing waits for a Hold: a
// Mount of a parked workspace ends it.
//
// The error is a *NoWorkspaceError for an unknown ID, and an *InUseError for a workspace that
// is being made or has just ended.
func (m *Manager) Hold(ctx context.Context, id string) (*Hold, error) {
	w, err := m.records.lookUp(id)
	if err != nil {
		return nil, &NoWorkspaceError{id}
	}
	before := m.records.get(w)
	joinable := before.Phase.Live() && !before.Private()
	if joinable { // so that it is not mounted while its hold begins
		unlock, err := m.volumes.Lock(ctx, before.Volume)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	unlock, err := m.records.locks.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec := m.records.get(w)
	switch {
	case m.records.gone(w):
		return nil, &NoWorkspaceError{id}
	case rec.Phase == meta.Making:
		return nil, &InUseError{fmt.Sprintf("workspace %q is being mounted: run it again", id)}
	case rec.Phase == meta.Ended || rec.Phase == meta.Parked && (!joinable || before.Volume != rec.Volume):
		return nil, &InUseError{fmt.Sprintf("workspace %q has just ended, or a container still uses it: run it again", id)}
	}
	held := &Hold{Record: rec, Upper: m.mounter.Upper(rec), From: m.mounter.From(rec), Lower: m.mounter.Lower(w.clone, rec)}
	switch err = m.mounter.Complete(w.clone, rec); {
	case err != nil:
	case rec.Phase == meta.Mounted:
		held.Root, err = overlay.Root(m.Mountpoint(rec))
		if errors.Is(err, overlay.ErrNotMounted) || errors.Is(err, fs.ErrNotExist) {
			err = &InUseError{fmt.Sprintf("the overlay of workspace %q was unmounted: mount volume %q again, or remove it", id, rec.Volume)}
		}
	case len(rec.Merged) > 0: // nothing has mounted what it is now
	default:
		err = m.notBusy(rec)
	}
	if err != nil {
		return nil, err
	}
	m.beginHold(ctx, w, held)
	return held, nil
}

// beginHold adds a Hold to a workspace.
func (m *Manager) beginHold(ctx context.Context, w *workspace, held *Hold) {
	limited, stop := context.WithTimeoutCause(ctx, m.holdLife, errHoldLife)
	held.ctx, held.cancel = context.WithCancelCause(limited)
	r := m.records
	r.mu.Lock()
	w.holds[held] = true
	r.mu.Unlock()
	end := func() {
		if held.Root != nil {
			held.Root.Close()
		}
		r.mu.Lock()
		delete(w.holds, held)
		merged := len(w.rec.Merged) > 0 && len(held.Record.Merged) == 0
		r.mu.Unlock()
		if merged {
			m.reaper.freed(ctx, append([]string{w.id}, held.Record.From...)...)
		}
	}
	held.end = sync.OnceFunc(func() {
		held.cancel(context.Canceled)
		stop()
		end()
	})
	held.free = held.end
	if held.Root != nil {
		held.free = sync.OnceFunc(func() {
			held.cancel(context.Canceled)
			m.config.Work.Go(func(context.Context) { held.end() }) // the workspace may have ended, and its overlay takes seconds
		})
	}
}

// notBusy returns an *InUseError if a container still uses a workspace that is not mounted.
func (m *Manager) notBusy(rec meta.Workspace) error {
	busy, err := m.mounter.Busy(rec)
	if err == nil && busy {
		err = &InUseError{fmt.Sprintf("%v of volume %q: end it (docker ps --filter volume=%s)", ErrHeld, rec.Volume, rec.Volume)}
	}
	return err
}

// viewed returns an *InUseError if a workspace is held for somebody who looks at it.
func (r *records) viewed(w *workspace) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(w.holds) == 0 {
		return nil
	}
	return &InUseError{fmt.Sprintf("somebody looks at workspace %q (status, diff, export or push), or publishes its cache: run it again when that has ended", w.id)}
}

// endHolds asks those who look at a workspace to stop.
func (r *records) endHolds(w *workspace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for held := range w.holds {
		held.cancel(errHoldLost)
	}
}
