package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// startWait is the default of Config.StartWait: the engine may not have given the workspace to the container yet: it
// takes a second or so, unless another volume of the container is being cloned. Then the container's start fails,
// and can be repeated.
const startWait = 30 * time.Second

// NoLeaseError says that a holder has no lease of a volume.
type NoLeaseError struct{ Volume, Holder string }

func (e *NoLeaseError) Error() string {
	return fmt.Sprintf("volume %q has no lease of %q", e.Volume, e.Holder)
}

// HasHolder returns a *NoLeaseError unless a holder has leases of a volume.
func (m *Manager) HasHolder(volume, holder string) error {
	if w := m.records.heldBy(volume, holder); w == nil {
		return &NoLeaseError{volume, holder}
	}
	return nil
}

// heldBy returns the workspace of which a holder has leases; nil if there is none.
func (r *records) heldBy(volume, holder string) (w *workspace) {
	r.each(func(o *workspace) {
		if o.rec.Volume == volume && len(o.rec.Leases.Of(holder)) > 0 {
			w = o
		}
	})
	return w
}

// ForceRelease does what Release does, for all leases of a holder that is gone and did not
// release them. Release of one of them afterwards is not an error.
//
// The kernel decides: the error is an *InUseError while a container has the workspace or a
// process on this machine uses its mount, which is unmounted only if nobody does. The kernel
// does not say which container it is. So if several holders share the workspace, the error
// is the same until all their containers are gone. It is also an *InUseError if the kernel
// can't tell, and just after a Mount. An unknown holder is a *NoLeaseError. The record is that
// of the workspace afterwards.
func (m *Manager) ForceRelease(ctx context.Context, volume, holder string) (meta.Workspace, error) {
	w := m.records.heldBy(volume, holder)
	if w == nil {
		return meta.Workspace{}, &NoLeaseError{volume, holder}
	}
	unlock, err := m.lockJoins(m.records.get(w))
	if err != nil {
		return meta.Workspace{}, err
	}
	defer unlock()
	var rec meta.Workspace
	err = eventually(ctx, func() (err error) {
		rec, err = m.forceRelease(ctx, w, holder)
		rec, err = m.released(ctx, w, rec, err)
		return err
	})
	if err != nil && m.records.gone(w) {
		err = &NoLeaseError{volume, holder}
	}
	return rec, err
}

// forceRelease tries once to commit that a holder has no leases of a workspace, after it unmounted a workspace that
// ends by that. A crash in between leaves a workspace that is recorded as mounted and is not: the next start ends it.
func (m *Manager) forceRelease(ctx context.Context, w *workspace, holder string) (meta.Workspace, error) {
	before, unlock, err := m.records.begin(w)
	if err != nil {
		return before, err
	}
	defer unlock()
	rec := before
	for _, id := range before.Leases.Of(holder) {
		rec.Leases = rec.Leases.Without(id)
	}
	if len(rec.Leases) == len(before.Leases) {
		return before, &NoLeaseError{rec.Volume, holder}
	}
	if err := m.unused(ctx, w, before, m.config.StartWait); err != nil {
		return before, err
	}
	if m.endUnleased(&rec); rec.Phase == meta.Ended {
		if err := m.unmount(ctx, w, before); err != nil {
			return before, err
		}
	}
	return m.records.commit(ctx, w, before, rec, nil)
}

// passing is an error because of a use that may be over in a moment.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// eventually calls try until its error is not passing, or verifyWait is over. Nothing is locked while it waits.
func eventually(ctx context.Context, try func() error) error {
	for waited := time.Duration(0); ; waited += verifyPause {
		err := try()
		if _, again := errors.AsType[passing](err); !again || waited >= verifyWait {
			return err
		}
		if sleep(ctx, verifyPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// unused returns an *InUseError unless the kernel says that no container has a mounted
// workspace, and its last lease is older than wait. The error is passing if a container has it, because the kernel
// removes the mounts of a container a moment after its end.
func (m *Manager) unused(ctx context.Context, w *workspace, rec meta.Workspace, wait time.Duration) error {
	if left := wait - time.Since(m.records.leasedAt(w, m.started)); left > 0 {
		return &InUseError{fmt.Sprintf("volume %q was mounted just now, and its container may be about to start: run it again in %v",
			rec.Volume, left.Round(time.Second))}
	}
	held, err := m.heldAfter(ctx, w, 0)
	if err == nil && !held { // a plugin that is a service of the host sees all containers
		held, err = overlay.Seen(ctx, m.Mountpoint(rec))
	}
	if errors.Is(err, overlay.ErrNotMounted) || errors.Is(err, fs.ErrNotExist) {
		held, err = m.mounter.Busy(rec)
	}
	switch {
	case errors.Is(err, overlay.ErrUnknown):
		return &InUseError{fmt.Sprintf("the kernel can't tell whether a container has the workspace of volume %q (%v): "+
			"end the container, or run docker plugin disable -f and then docker plugin enable --timeout 120", rec.Volume, err)}
	case err != nil:
		return err
	case held:
		return passing{&InUseError{fmt.Sprintf("a container has the workspace of volume %q: end it (docker ps --filter volume=%s)", rec.Volume, rec.Volume)}}
	}
	return nil
}

// leasedAt returns when a workspace last got a lease, at least since the process started.
func (r *records) leasedAt(w *workspace, started time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.leased.After(started) {
		return w.leased
	}
	return started
}

// unmount unmounts a workspace that no container has. If a process uses the mount, the
// workspace stays as it is, and the error is an *InUseError. It is passing, because a child
// that is being started has copies of this process's descriptors for a moment.
func (m *Manager) unmount(ctx context.Context, w *workspace, rec meta.Workspace) error {
	at := m.Mountpoint(rec)
	err := overlay.Unmount(at)
	switch {
	case err == nil:
		failpoint.Hit("workspace/force/unmounted")
		return nil
	case errors.Is(err, overlay.ErrNotMounted):
		return nil
	case !errors.Is(err, overlay.ErrBusy):
		return err
	}
	// What is bound in it is unmounted already, unless that is what is used.
	if w.clone != nil {
		if err := m.mounter.BindHelper(rec); err != nil {
			m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Debug("bind again what was bound in a workspace")
		}
	}
	if err := m.records.viewed(w); err != nil {
		return err
	}
	return passing{&InUseError{fmt.Sprintf("a process on this machine uses the workspace of volume %q at %s: end it", rec.Volume, at)}}
}
