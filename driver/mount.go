package driver

import (
	"context"
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
)

// Create makes a volume.
func (d *Driver) Create(ctx context.Context, name string, options map[string]string) error {
	return d.observed(ctx, OpCreate, func(ctx context.Context) error { return d.config.Volumes.Create(ctx, name, options) })
}

// Remove removes a volume.
func (d *Driver) Remove(ctx context.Context, name string) error {
	return d.observed(ctx, OpRemove, func(ctx context.Context) error { return d.config.Volumes.Remove(ctx, name) })
}

// Mount gives a mount ID its workspace and returns where it is mounted. If the client
// hangs up, ctx ends and the workspace is taken back; clone and fetch go on.
//
// If a container has the mount ID already (docker cp), the engine takes an error for the
// end of the container: it sends an Unmount and forgets the ID. The next docker cp would
// come with a new ID and get a new workspace. So if the workspace is out of reach, the
// answer is a path that can't exist, which contains the reason.
func (d *Driver) Mount(ctx context.Context, name, id string) (mountpoint string, err error) {
	var mount verbs.Mount
	err = d.observed(ctx, OpMount, func(ctx context.Context) (err error) {
		mount, err = d.mount(ctx, mountID{name, id})
		return err
	})
	switch {
	case err == nil:
		if id == podmanID {
			d.config.Log.WithContext(ctx).WithField("volume", name).Info("mount: " + oneMount)
		}
		return mount.Path, nil
	case mount.File != "":
		d.config.Log.WithContext(ctx).WithError(err).WithField("volume", name).Warn("mount: the answer is a path that can't exist")
		return noMountpoint(mount.File, err), nil
	}
	return "", err
}

// mount is Mount without the form of the answer.
func (d *Driver) mount(ctx context.Context, m mountID) (verbs.Mount, error) {
	began := d.config.Now()
	unlock, err := d.mounts.Lock(ctx, m)
	if err != nil {
		return verbs.Mount{}, err
	}
	defer unlock()
	if err := d.checkID(m); err != nil {
		return verbs.Mount{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, d.patience.left(began))
	defer cancel()
	mount, err := d.acquire(waiting, m)
	if now := d.config.Now(); ctx.Err() != nil {
		d.patience.hungUp(m, now.Sub(began), now)
	} else {
		d.patience.waited(now.Sub(began))
	}
	return mount, err
}

// acquire acquires the first lease of a mount ID. If the ID has that lease already,
// acquire adds another one, even if no mount reaches a container, because the engine will
// send an Unmount.
func (d *Driver) acquire(ctx context.Context, m mountID) (verbs.Mount, error) {
	for {
		mount, err := d.config.Volumes.Acquire(ctx, m.nth(1))
		switch {
		case verbs.KindOf(err) == verbs.Canceled:
			return verbs.Mount{}, err
		case !mount.Again:
			return mount, err
		}
		next := m.nth(d.lastMount(m) + 1)
		added, addErr := d.config.Volumes.Add(ctx, m.nth(1), next.ID)
		if addErr != nil {
			return verbs.Mount{}, errors.Join(err, addErr)
		}
		if added && ctx.Err() == context.Canceled {
			return verbs.Mount{}, errors.Join(context.Cause(ctx), d.config.Volumes.Release(ctx, next))
		}
		if added {
			return mount, err
		}
		// The lease has just been lost.
	}
}

// EngineStarted tells the driver that another engine may have started to use the plugin.
// That engine has not counted the Mounts of the existing leases.
func (d *Driver) EngineStarted(leases []verbs.Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.uncounted = make(map[mountID]bool)
	for _, l := range leases {
		id, _ := meta.HolderOf(l.ID)
		d.uncounted[mountID{l.Volume, id}] = true
	}
}

// errKeepID is the answer to an Unmount that has succeeded. The engine logs it when a
// container ends, and ignores it after a docker cp.
var errKeepID = errors.New("it is unmounted; this answer is for an engine that began to count mounts when it started, after this one: so it keeps the mount ID")

// Unmount undoes the last Mount with an ID. An unknown ID was unmounted before, or its
// leases were released by force: the engine still counts those Mounts, and Unmounts that it
// sends for them find no lease. They can't hit a later Mount with that ID, because an engine
// starts a container and copies from it only after it has sent the Unmounts of its last end.
//
// An engine counts the Mounts of an ID, and forgets the ID when an Unmount brings the
// count to zero. Engine 20.10.24 with live-restore starts again from zero for a container
// that outlived another engine. After a docker cp it would forget the ID of the running
// container: the next docker cp would come with a new ID and get a new workspace, and
// nobody would unmount the old one. The engine does not count an Unmount that is answered
// with an error, and keeps the ID. So the first Unmount of each such ID gets an error,
// and from then on the engine's count is right. Later engines count right from the start.
// They then count one too many and never forget the ID, and the container's next start
// comes with it again.
func (d *Driver) Unmount(ctx context.Context, name, id string) error {
	return d.observed(ctx, OpUnmount, func(ctx context.Context) error { return d.unmount(ctx, mountID{name, id}) })
}

// unmount is Unmount.
func (d *Driver) unmount(ctx context.Context, m mountID) error {
	// Not ctx: an engine that hangs up does not ask again, and the work is short.
	unlock, err := d.mounts.Lock(context.WithoutCancel(ctx), m)
	if err != nil {
		return err
	}
	defer unlock()
	if last := d.lastMount(m); last > 0 {
		if err := d.config.Volumes.Release(ctx, m.nth(last)); err != nil {
			return err
		}
	} else {
		d.config.Log.WithContext(ctx).WithFields(logrus.Fields{"volume": m.Volume, "lease": m.ID}).Info("unmount: the mount ID has no lease")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uncounted[m] {
		delete(d.uncounted, m)
		return errKeepID
	}
	return nil
}
