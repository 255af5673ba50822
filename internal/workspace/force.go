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

// startWait is the default of Config.StartWait: the engine may not have given the workspace to the container yet: it takes a second or so,
// unless another volume of the container is being cloned. Then the container's start fails,
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
		if o.rec.Volume == volume && len(leasesOf(o.rec, holder)) > 0 {
			w = o
		}
	})
	return w
}

// leasesOf returns the leases that a holder has of a workspace.
func leasesOf(rec meta.Workspace, holder string) (ids meta.Leases) {
	for _, id := range rec.Leases {
		if of, _ := meta.HolderOf(id); of == holder {
			ids = append(ids, id)
		}
	}
	return ids
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
	rec, err := m.removeLeases(ctx, w, func(rec *meta.Workspace) error {
		released := leasesOf(*rec, holder)
		if len(released) == 0 {
			return &NoLeaseError{volume, holder}
		}
		if err := m.unused(ctx, w, *rec, m.StartWait); err != nil {
			return err
		}
		for _, id := range released {
			rec.Leases = rec.Leases.Without(id)
		}
		if len(rec.Leases) > 0 || rec.Kept() {
			return nil // it stays mounted
		}
		return m.unmount(ctx, w, *rec)
	}, nil)
	if err != nil && m.records.gone(w) {
		err = &NoLeaseError{volume, holder}
	}
	return rec, err
}

// unused returns an *InUseError unless the kernel says that no container has a mounted
// workspace, and its last lease is older than wait.
func (m *Manager) unused(ctx context.Context, w *workspace, rec meta.Workspace, wait time.Duration) error {
	if left := wait - time.Since(m.records.leasedAt(w, m.started)); left > 0 {
		return &InUseError{fmt.Sprintf("volume %q was mounted just now, and its container may be about to start: run it again in %v",
			rec.Volume, left.Round(time.Second))}
	}
	// The kernel removes the mounts of a container a moment after its end.
	held, err := m.heldAfter(ctx, w, verifyWait)
	if err == nil && !held { // a plugin that is a service of the host sees all containers
		held, err = overlay.Seen(m.Mountpoint(rec))
	}
	if errors.Is(err, overlay.ErrNotMounted) || errors.Is(err, fs.ErrNotExist) {
		held, err = m.mounter.Busy(rec)
	}
	switch {
	case errors.Is(err, overlay.ErrUnknown):
		return &InUseError{fmt.Sprintf("the kernel can't tell whether a container has the workspace of volume %q (%v): "+
			"end the container, or disable the plugin by force and enable it", rec.Volume, err)}
	case err != nil:
		return err
	case held:
		return &InUseError{fmt.Sprintf("a container has the workspace of volume %q: end it (docker ps --filter volume=%s)", rec.Volume, rec.Volume)}
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
// workspace stays as it is, and the error is an *InUseError. A crash afterwards leaves a
// workspace that is recorded as mounted and is not: the next start ends it.
func (m *Manager) unmount(ctx context.Context, w *workspace, rec meta.Workspace) error {
	at := m.Mountpoint(rec)
	err := overlay.Unmount(at)
	// A child that is being started has copies of this process's descriptors for a moment.
	for waited := time.Duration(0); errors.Is(err, overlay.ErrBusy) && waited < verifyWait; waited += verifyPause {
		if err := sleep(ctx, verifyPause); err != nil {
			return err
		}
		err = overlay.Unmount(at)
	}
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
		if err := errors.Join(m.mounter.BindCache(w.clone, rec), m.mounter.BindHelper(rec)); err != nil {
			m.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Debug("bind again what was bound in a workspace")
		}
	}
	if err := m.records.viewed(w); err != nil {
		return err
	}
	return &InUseError{fmt.Sprintf("a process on this machine uses the workspace of volume %q at %s: end it", rec.Volume, at)}
}
