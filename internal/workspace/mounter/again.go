package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

// MountFrom is MountNew for a workspace that begins with a checkpoint, the topmost one of rec.From, which is on disk with
// its layers. noHelper is that of MountAgain.
func (m *Mounter) MountFrom(ctx context.Context, rec meta.Workspace, c *clone.Clone) (noHelper string, err error) {
	if err := m.makeDirs(ctx, rec); err != nil {
		return "", err
	}
	if err := upper.MakeOn(m.Upper(rec), m.From(rec)[0]); err != nil {
		return "", err
	}
	failpoint.Hit("mounter/from/made")
	if rec.Kept() {
		if err := m.sync(rec); err != nil {
			return "", err
		}
	}
	return m.mountAgain(ctx, c, rec, true)
}

// MakeCopy makes the directory of a checkpoint whose upper is going to be a copy, with an empty upper.
func (m *Mounter) MakeCopy(rec meta.Workspace) error {
	return m.mkdirs(rec, m.Dir(rec), m.Upper(rec))
}

// MountAgain mounts a parked workspace that nobody uses, on exactly the layers of its record. noHelper says why it
// lacks the credential helper that its volume asks for; containers read it, so it names nothing of the host.
func (m *Mounter) MountAgain(ctx context.Context, c *clone.Clone, rec meta.Workspace) (noHelper string, err error) {
	return m.mountAgain(ctx, c, rec, false)
}

// mountAgain is MountAgain, or MountFrom for a workspace whose directory was just made.
func (m *Mounter) mountAgain(ctx context.Context, c *clone.Clone, rec meta.Workspace, fresh bool) (noHelper string, err error) {
	switch err := m.Complete(c, rec); {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%w: what the workspace had is lost; remove the volume and create it again", err)
	case err != nil:
		return "", err
	}
	if rec.Metacopy && !m.config.Features.Metacopy {
		return "", errors.New("it was written with metacopy, which this kernel lacks: start the kernel that wrote it")
	}
	if rec.Limit != (disk.Size{}) {
		if err := m.config.Projects.Supported(); err != nil { // each time, before the mount
			return "", fmt.Errorf("it has a limit, which does not hold here: %w", err)
		}
	}
	// The plugin's own writes, and the kernel's for a mount, must not fail because the workspace is full.
	if err := errors.Join(m.limit(rec, disk.Size{}), m.assign(ctx, rec)); err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, m.limit(rec, rec.Limit)); err != nil { // nobody may use it without
			release, detached := m.Detach(ctx, rec)
			release()
			err = errors.Join(err, detached)
		}
	}()
	rec.NoHelper = ""
	if handout.Wanted(rec.Options) {
		if err := handout.Make(m.Helper(rec)); err != nil {
			return "", err
		}
	}
	if err := overlay.MakePoint(overlay.PointsDir(m.config.Root), rec.ID); err != nil {
		return "", err
	}
	if err := overlay.Mount(m.overlay(c, rec)); err != nil {
		return "", err
	}
	failpoint.Hit("mounter/again/mounted")
	if err = m.BindHelper(rec); err != nil { // containers changed the directory where it is bound: they don't get it
		m.config.Log.WithContext(ctx).WithField("volume", rec.Volume).WithError(err).Warn("a workspace is mounted without the credential helper")
		rec.NoHelper = HelperMisplaced
	}
	var unlocked []string
	if fresh {
		if unlocked, err = upper.Unlock(ctx, m.Mountpoint(rec), m.From(rec)); err != nil {
			return "", fmt.Errorf("remove git's locks from a new workspace: %w", err)
		}
	}
	if err = upper.Describe(m.Mountpoint(rec), rec, m.config.Now(), unlocked); err != nil {
		return "", fmt.Errorf("write .git/helmdeck.json: %w", err)
	}
	if fresh {
		err = upper.SetTimes(m.Mountpoint(rec), m.From(rec)[0])
	}
	return rec.NoHelper, err
}

// HelperMisplaced tells a container that the credential helper could not be bound. The error
// itself is only in the log, because it names paths of the host.
const HelperMisplaced = "it could not be mounted at " + handout.Mount + ", which has to be a directory: the plugin's log says more"
