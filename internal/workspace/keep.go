package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
)

func isKept(rec meta.Workspace) bool    { return rec.Mode == string(volume.ModeKeep) }
func isPrivate(rec meta.Workspace) bool { return rec.Mode == string(volume.ModePrivate) }

// Join gives a lease to the workspace that a volume shares or keeps. A kept one
// that is not mounted, after a restart, is mounted first. It asks nobody but the
// kernel. ok is false when there is none: then Open is to make it.
func (m *Manager) Join(ctx context.Context, name, leaseID string) (rec meta.Workspace, ok bool, err error) {
	unlock, err := m.volumes.Lock(ctx, name)
	if err != nil {
		return meta.Workspace{}, false, err
	}
	defer unlock()
	return m.joinLocked(ctx, name, leaseID)
}

// joinLocked is Join with the volume's lock held.
func (m *Manager) joinLocked(ctx context.Context, name, leaseID string) (rec meta.Workspace, ok bool, err error) {
	w, orphans := m.find(name)
	mounted := false
	if w != nil {
		mounted, err = overlay.Mounted(m.Mountpoint(m.record(w)))
		if err == nil && !mounted && m.record(w).Phase == meta.Mounted {
			err = m.lose(w)
			w, orphans = m.find(name)
		}
	}
	if err != nil {
		return meta.Workspace{}, false, err
	}
	for _, o := range orphans {
		if err := m.waitFree(ctx, m.record(o)); err != nil {
			return meta.Workspace{}, false, err
		}
	}
	if w == nil {
		return meta.Workspace{}, false, nil
	}
	noCache := m.record(w).NoCache
	if !mounted {
		if noCache, err = m.mountKept(ctx, w); err != nil {
			return meta.Workspace{}, false, err
		}
	}
	rec, err = m.change(w, func(rec *meta.Workspace) error {
		if rec.Leases == nil {
			rec.Leases = make(map[string]int)
		}
		rec.Phase, rec.NoCache = meta.Mounted, noCache
		rec.Leases[leaseID]++
		return nil
	}, nil)
	return rec, err == nil, err
}

// find returns the workspace that a volume shares or keeps, if there is one, and
// those that it has shared until their overlay was gone.
func (m *Manager) find(name string) (w *workspace, orphans []*workspace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.all {
		switch {
		case o.rec.Volume != name || o.rec.Mode == string(volume.ModePrivate):
		case o.rec.Phase.Live():
			w = o
		case o.rec.Phase == meta.Ended && o.rec.Orphan:
			orphans = append(orphans, o)
		}
	}
	return w, orphans
}

// Kept returns the record of the workspace that a volume keeps. It is not to be
// changed.
func (m *Manager) Kept(name string) (rec meta.Workspace, ok bool) {
	w, _ := m.find(name)
	if w == nil {
		return meta.Workspace{}, false
	}
	rec = m.record(w)
	return rec, isKept(rec)
}

// mountKept mounts a parked workspace, as soon as nobody uses it, on exactly the
// layers that it stands on. It returns why the workspace has no cache; empty if it has
// what its volume asks for.
func (m *Manager) mountKept(ctx context.Context, w *workspace) (noCache string, err error) {
	rec := m.record(w)
	if err := m.waitFree(ctx, rec); err != nil {
		return "", err
	}
	if noCache, err = m.mountAgain(w, rec); err != nil {
		return "", fmt.Errorf("mount what volume %q keeps: %w", rec.Volume, err)
	}
	return noCache, nil
}

// mountAgain is mountKept of one that nobody uses.
func (m *Manager) mountAgain(w *workspace, rec meta.Workspace) (noCache string, err error) {
	if w.clone == nil {
		return "", errors.New("its clone is gone: " + remedyLost)
	}
	lower := m.lower(rec, w.clone.Trees.Lower(rec.Chain, rec.GitLayer))
	for _, dir := range append([]string{m.upper(rec)}, lower...) {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("%s is gone: %s", dir, remedyLost)
		}
	}
	if (rec.Metacopy || rec.Redirects) && !m.Features.Metacopy {
		return "", errors.New("it was written with metacopy, which this kernel lacks: start the kernel that wrote it")
	}
	opts, err := volume.Parse(rec.Options, nil, volume.AllSchemes())
	if err != nil {
		return "", err
	}
	rec.NoCache = ""
	said, err := m.sayAbout(m.upper(rec), rec, opts)
	if err != nil {
		return "", err
	}
	if err := m.mount(rec, lower); err != nil {
		return "", err
	}
	// What is at the place of the cache is the containers' doing: they go without.
	if err := m.bindCache(rec, w.clone, opts); err != nil {
		m.Log.WithError(err).WithField("volume", rec.Volume).Warn("a kept workspace is mounted without its cache")
		rec.NoCache = cacheMisplaced
		if said { // through the mount: the upper is in use
			if _, err := m.sayAbout(m.Mountpoint(rec), rec, opts); err != nil {
				m.Log.WithError(err).WithField("volume", rec.Volume).Warn("say that a kept workspace has no cache")
			}
		}
	}
	return rec.NoCache, nil
}

// cacheMisplaced is what a container can read of a cache that could not be bound; the log
// has the error, which names paths of the host.
const cacheMisplaced = "it could not be mounted at " + tree.CacheMount + ", which has to be a directory: the plugin's log says more"

// sayAbout writes .git/helmdeck.json anew in dir: see putAbout.
func (m *Manager) sayAbout(dir string, rec meta.Workspace, o volume.Options) (written bool, err error) {
	data, err := aboutOf(rec, o, m.Now())
	if err == nil {
		written, err = putAbout(dir, data, int(rec.UID), int(rec.GID))
	}
	if err != nil {
		return false, fmt.Errorf("write .git/helmdeck.json: %w", err)
	}
	return written, nil
}

const remedyLost = "what the workspace had is lost; remove the volume and create it again"

// End ends the workspace that a volume keeps, if there is one, in one transaction
// with what with does. It is an error while it is leased.
func (m *Manager) End(ctx context.Context, name string, with func(*meta.Tx) error) error {
	unlock, err := m.volumes.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	w, _ := m.find(name)
	if w == nil {
		return m.DB.Update(with)
	}
	if n := len(m.record(w).Leases); n > 0 {
		return fmt.Errorf("the workspace of volume %q is mounted (%d times)", name, n)
	}
	return m.end(w, with)
}

// EndUnused ends the workspace that a volume keeps, unless it is leased, or has
// changes of a lease that it had.
func (m *Manager) EndUnused(name string) error {
	unlock, err := m.volumes.Lock(context.Background(), name)
	if err != nil {
		return err
	}
	defer unlock()
	w, _ := m.find(name)
	if w == nil || len(m.record(w).Leases) > 0 {
		return nil
	}
	if touched, err := m.touched(context.Background(), w); err != nil || touched {
		return err
	}
	return m.end(w, nil)
}

const (
	defaultHeldWait = 5 * time.Second
	// heldAtStart is, in HeldWaits, how long after the start waits go on at least. An
	// engine that was killed ends its containers when it comes back, and starts each of
	// them once: one that is refused stays down. The kernel lets go of the workspaces
	// after the containers' end, late on a loaded disk: whoever is the last to unmount
	// an overlay syncs its filesystem first, and other containers that are being started
	// have copies of the mounts too.
	heldAtStart = 6
	heldFirst   = 20 * time.Millisecond
	heldMost    = 250 * time.Millisecond
)

// ErrHeld is in the error about a workspace that is not mounted here, and that a
// container still has.
var ErrHeld = errors.New("a container that outlived a disabled plugin or a killed engine still uses the workspace")

// waitFree waits until the kernel says that nobody uses a workspace that is not
// mounted here, for as long as HeldWait, or longer after the start.
func (m *Manager) waitFree(ctx context.Context, rec meta.Workspace) error {
	most, waited := max(m.HeldWait, heldAtStart*m.HeldWait-time.Since(m.started)), time.Duration(0)
	for wait := heldFirst; ; wait = min(2*wait, heldMost) {
		busy, err := m.busy(rec)
		if err != nil || !busy {
			return err
		}
		if waited >= most {
			return fmt.Errorf("%w of volume %q, and one upper layer can't be mounted twice: "+
				"end it (docker ps --filter volume=%s), then run it again", ErrHeld, rec.Volume, rec.Volume)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
			waited += wait
		}
	}
}
