package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
)

// errPatience is why a Mount ends before its work does.
var errPatience = errors.New("not done in time")

// Mount gives a lease its workspace and returns where it is mounted. When ctx
// ends, because the client hung up, the workspace is taken back; clone and fetch
// go on.
//
// To a Mount of a lease that a container has already (docker cp) the engine takes an
// error for the end of the container: it sends an Unmount and forgets the mount ID, and
// the next docker cp would come with a new one and get a new workspace. So a workspace
// that is out of reach is answered with a path that can't exist, and that says why.
func (d *Driver) Mount(ctx context.Context, name, id string) (mountpoint string, err error) {
	began := d.Now()
	ctx = work.WithOwner(ctx, work.Owner{Name: fmt.Sprintf("a mount of volume %q", name), Urgent: true})
	unlock, err := d.mounts.Lock(ctx, lease{name, id})
	if err != nil {
		return "", err
	}
	defer unlock()
	d.mu.Lock()
	h, ok := d.volumes[name]
	if !ok {
		d.mu.Unlock()
		return "", fmt.Errorf("no volume %q", name)
	}
	if h.removing {
		d.mu.Unlock()
		return "", fmt.Errorf("volume %q is being removed", name)
	}
	h.mounting++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		h.mounting--
		d.mu.Unlock()
		if err != nil {
			d.note(h, err)
		}
	}()
	release, err := h.clone.Use(ctx) // before it looks, and until the workspace holds its layers
	if err != nil {
		return "", err
	}
	defer release()
	rec, retained, err := d.Workspaces.Retain(ctx, name, id)
	if errors.Is(err, workspace.ErrHeld) {
		if lost := d.reached(); lost != nil {
			err = lost // which is why it is not mounted any more
		}
		d.note(h, err)
		d.Log.WithError(err).WithField("volume", name).Warn("mount: the answer is a path that can't exist")
		return d.Workspaces.NoMountpoint(rec, err), nil
	}
	made := false
	if err == nil && !retained {
		rec, made, err = d.mount(ctx, h, id)
	}
	if err == nil && ctx.Err() != nil {
		err = errors.Join(errHungUp, d.takeBack(name, id, made))
	}
	if err == nil {
		mountpoint = d.Workspaces.Mountpoint(rec)
		switch lost := d.reached(); {
		case lost != nil && retained:
			mountpoint = d.Workspaces.NoMountpoint(rec, lost)
		case lost != nil:
			err = errors.Join(lost, d.takeBack(name, id, made))
		}
	}
	now := d.Now()
	if ctx.Err() != nil {
		d.patience.hungUp(lease{name, id}, now.Sub(began), now)
	} else {
		d.patience.waited(now.Sub(began))
	}
	if err != nil {
		d.Log.WithError(err).WithField("volume", name).Warn("mount: failed")
		return "", err
	}
	d.note(h, nil)
	if id == podmanID {
		d.Log.WithField("volume", name).Info("mount: " + oneMount)
	}
	d.Log.WithFields(logrus.Fields{
		"volume": name, "workspace": rec.ID, "commit": rec.Commit, "reused": rec.Reused,
		"took": d.Now().Sub(began).String(),
	}).Info("mount: done")
	return mountpoint, nil
}

// reached says why no mount reaches a container now; nil if they do.
func (d *Driver) reached() error {
	if d.Reached == nil {
		return nil
	}
	return d.Reached()
}

var errHungUp = errors.New("the client hung up: the workspace was taken back")

// takeBack undoes a Mount whose answer nobody has got: a workspace that it made to
// be kept goes with its only lease.
func (d *Driver) takeBack(name, id string, made bool) error {
	err := d.Workspaces.Release(name, id)
	if err == nil && made {
		return d.Workspaces.EndUnused(name)
	}
	return err
}

// mount gives a lease its workspace; made says whether it is a new one.
func (d *Driver) mount(ctx context.Context, h *handle, id string) (rec meta.Workspace, made bool, err error) {
	if !d.Schemes.Allows(h.opts.Repo.Scheme()) {
		return rec, false, fmt.Errorf("volume %q: the setting ALLOW_SCHEMES no longer allows %s", h.rec.Name, h.opts.Repo.Scheme())
	}
	if err := d.checkIDs(h, id); err != nil {
		return rec, false, err
	}
	done, err := d.Workspaces.Admit(h.clone.Key, h.rec.Name, id)
	if err != nil {
		return rec, false, fmt.Errorf("volume %q: %w", h.rec.Name, err)
	}
	defer done()
	wait := d.patience.left(d.Now())
	waiting, cancel := context.WithTimeoutCause(ctx, wait, errPatience)
	defer cancel()
	if h.opts.Mode != volume.ModePrivate {
		var ok bool
		rec, ok, err = d.Workspaces.Join(waiting, h.rec.Name, id)
		if ok {
			if h.opts.Mode == volume.ModeKeep {
				d.lookBehind(h)
			}
			return rec, false, nil
		}
		if err == nil && h.opts.Restore != "" {
			err = fmt.Errorf("volume %q: the workspace that was restored into it is gone: remove the volume", h.rec.Name)
		}
	}
	if err == nil {
		rec, err = d.openWorkspace(waiting, h, id)
	}
	if errors.Is(err, errPatience) {
		doing := h.clone.Remote.Doing.String()
		if doing == "" {
			doing = "preparing " + h.opts.Repo.String()
		}
		return rec, false, fmt.Errorf("%s, not done after %v, continues in the background: run it again", doing, wait.Round(time.Second))
	}
	if err != nil {
		return rec, false, err
	}
	if err := h.clone.Mounted(); err != nil {
		return rec, false, errors.Join(err, d.takeBack(h.rec.Name, id, true))
	}
	return rec, true, nil
}

// openWorkspace prepares a checkout and makes a workspace of it; once more if it
// turns out that layers were lost.
func (d *Driver) openWorkspace(ctx context.Context, h *handle, id string) (meta.Workspace, error) {
	for healed := false; ; {
		co, err := h.clone.Prepare(ctx, h.spec(), nil)
		if err != nil {
			return meta.Workspace{}, err
		}
		var rec meta.Workspace
		err = h.clone.WithRoom(ctx, disk.Size{}, func() error {
			rec, err = d.Workspaces.Open(ctx, workspace.Request{
				Volume: h.rec.Name, LeaseID: id, Options: h.opts, Clone: h.clone, Checkout: co,
			})
			return err
		})
		if err == nil {
			return rec, nil
		}
		co.Release()
		if !healed {
			var healErr error
			if healed, healErr = h.clone.Trees.Heal(ctx); healed && healErr == nil {
				continue
			}
		}
		return meta.Workspace{}, err
	}
}

// errKeepID is the answer to an Unmount that is done. The engine logs it when a
// container ends, and drops it after a docker cp.
var errKeepID = errors.New("it is unmounted; this answer is for an engine that began to count mounts when it started, after this one: so it keeps the mount ID")

// Unmount takes back one Mount of a lease. An ID that is not known was unmounted
// already.
//
// An engine counts the Mounts of an ID, and forgets the ID when an Unmount brings the
// count to zero. With live-restore one of version 20.10.24 counts from zero those of a
// container that has outlived another engine: after a docker cp it would forget the ID
// of the running container. The next docker cp would come with a new ID and get a new
// workspace, and nobody would unmount the old one. An Unmount that is answered with an
// error is not counted, and keeps the ID. So the first one of each such lease is: from
// then on the engine's count is right. Later engines count right from the start; by one
// more they never forget the ID, and the container's next start comes with it again.
func (d *Driver) Unmount(ctx context.Context, name, id string) error {
	// Not ctx: an engine that hangs up will not ask again, and the work is short.
	unlock, err := d.mounts.Lock(context.WithoutCancel(ctx), lease{name, id})
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.Workspaces.Release(name, id); err != nil {
		return err
	}
	if d.Workspaces.Count(name, id) {
		return errKeepID
	}
	return nil
}
