package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

// Join gives a lease to the workspace that a volume shares or keeps. A kept workspace
// that is not mounted, as after a restart, is mounted first. Join uses no network. ok is
// false if there is no such workspace: then the caller makes it with Open.
func (m *Manager) Join(ctx context.Context, l Lease) (rec meta.Workspace, ok bool, err error) {
	unlock, err := m.volumes.Lock(ctx, l.Volume)
	if err != nil {
		return meta.Workspace{}, false, err
	}
	defer unlock()
	return m.joinLocked(ctx, l)
}

// joinLocked is Join with the volume's lock held.
func (m *Manager) joinLocked(ctx context.Context, l Lease) (rec meta.Workspace, ok bool, err error) {
	w, awaited := m.records.joinable(l.Volume)
	mounted := false
	if w != nil {
		mounted, err = overlay.Mounted(m.Mountpoint(m.records.get(w)))
		if err == nil && !mounted && m.records.get(w).Phase == meta.Mounted {
			err = m.loseLeases(ctx, w, vanished, unmounted)
			w, awaited = m.records.joinable(l.Volume)
		}
		if err != nil {
			return meta.Workspace{}, false, err
		}
	}
	if w != nil && !mounted {
		awaited = append(awaited, w)
	}
	for _, o := range awaited {
		if err := m.waitFree(ctx, m.records.get(o)); err != nil {
			return meta.Workspace{}, false, err
		}
	}
	if w == nil {
		return meta.Workspace{}, false, nil
	}
	rec = m.records.get(w)
	noHelper := rec.NoHelper
	if !mounted {
		noHelper, err = m.mounter.MountAgain(ctx, w.clone, rec)
	}
	if err == nil && len(rec.Leases) == 0 && volume.PublishOf(rec.Options) == volume.PublishMarked {
		_, err = upper.TakeMark(m.Mountpoint(rec)) // that of an earlier container, which a crash has left
	}
	if err != nil {
		return meta.Workspace{}, false, fmt.Errorf("mount what volume %q keeps: %w", l.Volume, err)
	}
	rec, err = m.records.change(ctx, w, func(rec *meta.Workspace) error {
		rec.Phase, rec.Leases = meta.Mounted, rec.Leases.With(l.ID)
		rec.NoHelper = noHelper
		return nil
	}, nil)
	return rec, err == nil, err
}

// Kept returns the record of the workspace that a volume keeps. The caller must not
// change it.
func (m *Manager) Kept(name string) (rec meta.Workspace, ok bool) {
	w, _ := m.records.joinable(name)
	if w == nil {
		return meta.Workspace{}, false
	}
	rec = m.records.get(w)
	return rec, rec.Kept()
}

// End ends the workspace that a volume keeps, if there is one, and calls with in the same
// transaction. A leased workspace is an error.
func (m *Manager) End(ctx context.Context, name string, with func(*meta.Tx) error) error {
	unlock, err := m.volumes.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	w, _ := m.records.joinable(name)
	if w == nil {
		return m.config.DB.Update(with)
	}
	if n := len(m.records.get(w).Leases); n > 0 {
		return fmt.Errorf("the workspace of volume %q is mounted (%d times)", name, n)
	}
	_, err = m.removeLeases(ctx, w, m.end, with)
	return err
}

// EndUnused ends the workspace that a volume keeps, unless it is leased or has changes.
func (m *Manager) EndUnused(ctx context.Context, name string) error {
	ctx = context.WithoutCancel(ctx)
	unlock, err := m.volumes.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	w, _ := m.records.joinable(name)
	if w == nil || len(m.records.get(w).Leases) > 0 {
		return nil
	}
	rec := m.records.get(w)
	if changed, err := m.mounter.Changed(ctx, w.clone, rec, false); err != nil || changed {
		return err
	}
	_, err = m.removeLeases(ctx, w, m.end, nil)
	return err
}

const (
	defaultHeldWait = 5 * time.Second
	// heldAtStart is how long after the start every wait goes on at least, as a multiple of
	// HeldWait. An engine that was killed ends its containers when it comes back, and
	// starts each of them once: a container that is refused stays down. The kernel frees
	// the workspaces only after the containers' end. On a loaded disk that is late, because
	// the last unmount of an overlay syncs its filesystem first, and because other
	// containers that are being started have copies of the mounts too.
	heldAtStart = 6
	heldFirst   = 20 * time.Millisecond
	heldMost    = 250 * time.Millisecond
)

// ErrHeld is wrapped by the error about a workspace that is not mounted here and that a
// container still uses.
var ErrHeld = errors.New("a container that outlived a disabled plugin or a killed engine still uses the workspace")

// waitFree waits until the kernel says that nobody uses a workspace that is not mounted
// here. It waits for HeldWait, or longer after the start, but not beyond ctx's deadline.
// Then the error wraps ErrHeld. It ends the holds of those who look at the files, because a
// Mount must not wait for a reader.
func (m *Manager) waitFree(ctx context.Context, rec meta.Workspace) error {
	w, err := m.records.lookUp(rec.ID)
	if err != nil {
		return nil // it was removed meanwhile
	}
	m.records.endHolds(w)
	most, waited := max(m.config.HeldWait, heldAtStart*m.config.HeldWait-time.Since(m.started)), time.Duration(0)
	for wait := heldFirst; ; wait = min(2*wait, heldMost) {
		busy, err := m.mounter.Busy(rec)
		viewed := m.records.viewed(w)
		if err != nil || !busy && viewed == nil {
			return err
		}
		if waited >= most || ctx.Err() == context.DeadlineExceeded {
			return cmp.Or(viewed, fmt.Errorf("%w of volume %q, and one upper layer can't be mounted twice: "+
				"end it (docker ps --filter volume=%s), then run it again", ErrHeld, rec.Volume, rec.Volume))
		}
		if err := sleep(ctx, wait); err != nil && ctx.Err() != context.DeadlineExceeded {
			return err
		}
		waited += wait
	}
}
