package workspace

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/admission"
	"github.com/helmdeck/repos/internal/workspace/replica"
)

// draft is a copy of a workspace that is not a checkpoint yet.
type draft struct {
	busy     sync.Mutex // held by a call; the others fail
	w        *workspace
	rec      meta.Workspace // in the phase that it is going to have
	hold     *Hold
	src, dst *os.File
	copy     *replica.Replica
	room     func() error // see admission.HalfOfFree
	full     error        // what is wrong if it has too many bytes, if that is about its name; else nil
	calls    int          // how many calls have begun
	expiry   *time.Timer  // runs between two calls
	unwatch  func() bool  // ends the watch of the hold
	release  func()       // ends the use of the clone
	turn     *admission.Turn
	ended    bool
}

// during returns a context that ends with ctx, and when a Mount needs the workspace.
func (d *draft) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.hold.Context(), func() { cancel(context.Cause(d.hold.Context())) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// awaitCall drops a draft if no other call comes in time. The caller holds busy.
func (m *Manager) awaitCall(ctx context.Context, d *draft) {
	calls := d.calls
	d.expiry = time.AfterFunc(draftLife, func() {
		d.busy.Lock()
		defer d.busy.Unlock()
		if d.calls == calls {
			m.dropLogged(ctx, d, true)
		}
	})
}

// draftOf returns a draft, for one call at a time. The caller calls done.
func (m *Manager) draftOf(ctx context.Context, id string) (d *draft, done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d = m.drafts[id]
	switch {
	case d == nil:
		return nil, nil, &RefusedError{fmt.Errorf("there is no draft %q: nobody continued it within %v, it failed, or its volume was mounted: make another one", id, draftLife)}
	case !d.busy.TryLock():
		return nil, nil, &RefusedError{fmt.Errorf("draft %q is being worked on", id)}
	}
	d.calls++
	d.expiry.Stop()
	return d, func() {
		if !d.ended {
			m.awaitCall(context.WithoutCancel(ctx), d)
		}
		d.busy.Unlock()
	}, nil
}

// DropDraft gives up a draft, if there is one with this ID, and returns its record. A call that works on it ends first.
func (m *Manager) DropDraft(ctx context.Context, id string) meta.Workspace {
	return m.drop(ctx, id, false)
}

// drop is DropDraft; idle is set if no client asks for it.
func (m *Manager) drop(ctx context.Context, id string, idle bool) (rec meta.Workspace) {
	m.mu.Lock()
	d := m.drafts[id]
	m.mu.Unlock()
	if d == nil {
		return rec
	}
	d.busy.Lock()
	defer d.busy.Unlock()
	m.dropLogged(ctx, d, idle)
	return d.rec
}

// dropLogged is dropDraft for nobody who waits; idle is set if no client asks for it.
func (m *Manager) dropLogged(ctx context.Context, d *draft, idle bool) {
	if d.ended {
		return
	}
	err := m.dropDraft(ctx, d)
	m.config.observe(ctx, Event{Step: StepDropped, Record: d.rec, Idle: idle, Err: err})
	if err != nil {
		m.config.Log.WithContext(ctx).WithError(err).WithField("checkpoint", d.rec.ID).Warn("remove an unfinished checkpoint")
	}
}

// dropDraft removes a draft that did not become a checkpoint. The caller holds busy.
func (m *Manager) dropDraft(ctx context.Context, d *draft) (err error) {
	if !m.endDraft(d) || d.w == nil {
		return nil
	}
	err = m.mounter.RemoveNew(ctx, d.rec)
	m.records.drop(d.w)
	m.config.dropLayers(d.w, d.rec)
	m.reaper.freed(ctx, d.rec.From...)
	return err
}

// endDraft gives back what a draft takes besides its files. It reports whether that was still to be done.
func (m *Manager) endDraft(d *draft) bool {
	if d.ended {
		return false
	}
	d.ended = true
	m.mu.Lock()
	delete(m.drafts, d.rec.ID)
	m.mu.Unlock()
	if d.expiry != nil {
		d.expiry.Stop()
		d.unwatch()
	}
	for _, f := range []*os.File{d.src, d.dst} {
		if f != nil {
			f.Close()
		}
	}
	if d.hold != nil {
		d.hold.Release()
	}
	if d.release != nil {
		d.release()
	}
	if d.turn != nil {
		d.turn.End()
	}
	return true
}
