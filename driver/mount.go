package driver

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/phase"
	"github.com/helmdeck/repos/internal/verbs"
)

// Create makes a volume.
func (d *Driver) Create(ctx context.Context, name string, options map[string]string) (err error) {
	start := time.Now()
	defer func() { d.observe(ctx, OpCreate, start, nil, err) }()
	return d.Volumes.Create(ctx, name, options)
}

// Remove removes a volume.
func (d *Driver) Remove(ctx context.Context, name string) (err error) {
	start := time.Now()
	defer func() { d.observe(ctx, OpRemove, start, nil, err) }()
	return d.Volumes.Remove(ctx, name)
}

// Mount gives a mount ID its workspace and returns where it is mounted. If the client
// hangs up, ctx ends and the workspace is taken back; clone and fetch go on.
//
// If a container has the mount ID already (docker cp), the engine takes an error for the
// end of the container: it sends an Unmount and forgets the ID. The next docker cp would
// come with a new ID and get a new workspace. So if the workspace is out of reach, the
// answer is a path that can't exist, which contains the reason.
func (d *Driver) Mount(ctx context.Context, name, id string) (mountpoint string, err error) {
	began := d.Now()
	m := mountID{name, id}
	start := time.Now() // not d.Now, which tests set
	watched, w := phase.With(ctx)
	var failure error // also one whose answer is a path
	defer func() { d.observe(ctx, OpMount, start, w, cmp.Or(failure, err)) }()
	unlock, err := d.mounts.Lock(ctx, m)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := d.checkID(m); err != nil {
		return "", err
	}
	waiting, cancel := context.WithTimeout(watched, d.patience.left(began))
	defer cancel()
	mount, err := d.acquire(waiting, m)
	failure = err
	if now := d.Now(); ctx.Err() != nil {
		d.patience.hungUp(m, now.Sub(began), now)
	} else {
		d.patience.waited(now.Sub(began))
	}
	switch {
	case err == nil:
		if id == podmanID {
			d.Log.WithContext(ctx).WithField("volume", name).Info("mount: " + oneMount)
		}
		return mount.Path, nil
	case mount.File != "":
		d.Log.WithContext(ctx).WithError(err).WithField("volume", name).Warn("mount: the answer is a path that can't exist")
		return noMountpoint(mount.File, err), nil
	}
	return "", err
}

// acquire acquires the first lease of a mount ID. If the ID has that lease already,
// acquire adds another one, even if no mount reaches a container, because the engine will
// send an Unmount.
func (d *Driver) acquire(ctx context.Context, m mountID) (verbs.Mount, error) {
	for {
		mount, err := d.Volumes.Acquire(ctx, m.nth(1))
		switch {
		case verbs.KindOf(err) == verbs.Canceled:
			return verbs.Mount{}, err
		case !mount.Again:
			return mount, err
		}
		next := m.nth(d.lastMount(m) + 1)
		added, addErr := d.Volumes.Add(ctx, m.nth(1), next.ID)
		if addErr != nil {
			return verbs.Mount{}, errors.Join(err, addErr)
		}
		if added && ctx.Err() == context.Canceled {
			return verbs.Mount{}, errors.Join(context.Cause(ctx), d.Volumes.Release(ctx, next))
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
func (d *Driver) Unmount(ctx context.Context, name, id string) (err error) {
	start := time.Now()
	defer func() { d.observe(ctx, OpUnmount, start, nil, err) }()
	m := mountID{name, id}
	// Not ctx: an engine that hangs up does not ask again, and the work is short.
	unlock, err := d.mounts.Lock(context.WithoutCancel(ctx), m)
	if err != nil {
		return err
	}
	defer unlock()
	if last := d.lastMount(m); last > 0 {
		if err := d.Volumes.Release(ctx, m.nth(last)); err != nil {
			return err
		}
	} else {
		d.Log.WithContext(ctx).WithFields(logrus.Fields{"volume": name, "lease": id}).Info("unmount: the mount ID has no lease")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uncounted[m] {
		delete(d.uncounted, m)
		return errKeepID
	}
	return nil
}
