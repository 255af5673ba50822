package verbs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/phase"
	"github.com/helmdeck/repos/internal/workspace"
)

// Acquire implements Verbs.
func (v *Volumes) Acquire(ctx context.Context, l Lease) (m Mount, err error) {
	if strings.Contains(l.ID, "#") {
		return Mount{}, fail(Invalid, fmt.Errorf("the lease ID %q has a #, which is not allowed", l.ID))
	}
	unlock, err := v.leases.Lock(work.WithOwner(ctx, mountOf(l)), l)
	if err != nil {
		return Mount{}, err
	}
	defer unlock()
	began, e := v.config.Now(), Event{Verb: Mounting, Volume: l.Volume, Lease: l.ID}
	ctx, watch := phase.Ensure(v.about(ctx, &e))
	e.Workspace, m, e.Err = v.acquire(ctx, l)
	e.Again, e.Took, e.Phases, e.Waits = m.Again, v.config.Now().Sub(began), watch.Took(), watch.Waits()
	v.report(ctx, e)
	return m, e.Err
}

func mountOf(l Lease) work.Owner {
	return work.Owner{Name: fmt.Sprintf("a mount of volume %q", l.Volume), Urgent: true}
}

// acquire is Acquire with the lease's lock held. It returns the workspace, if there is one, also with an error.
func (v *Volumes) acquire(ctx context.Context, l Lease) (rec meta.Workspace, m Mount, err error) {
	ctx = work.WithOwner(ctx, mountOf(l))
	h, err := v.enter(l.Volume)
	if err != nil {
		return rec, Mount{}, err
	}
	defer func() { v.leave(ctx, h, err) }()
	release, err := h.clone.Use(ctx) // from before the lookup until the workspace holds its layers
	if err != nil {
		return rec, Mount{}, err
	}
	defer release()
	rec, again, err := v.config.Workspaces.Lookup(ctx, l)
	held := errors.Is(err, workspace.ErrHeld)
	attached, made := false, false
	if err == nil && !again {
		rec, made, err = v.attach(ctx, h, l)
		attached = err == nil || made
	}
	if err == nil && ctx.Err() == context.Canceled {
		err = fail(Canceled, errHungUp)
	} else if err == nil || held {
		if lost := v.reached(); lost != nil {
			err = fail(Unreachable, lost) // also the reason why a held workspace is no longer mounted
		}
	}
	if err == nil {
		return rec, Mount{Path: v.config.Workspaces.Mountpoint(rec), Again: again}, nil
	}
	if again || held {
		return rec, Mount{Again: again, File: v.config.Workspaces.ManifestPath(rec)}, err
	}
	if attached { // otherwise a container may have the workspace that the lease had before
		err = errors.Join(err, v.takeBack(ctx, l, made))
	}
	return rec, Mount{}, err
}

// enter counts an Acquire or a Rewind of a volume until left, so that it is not removed.
func (v *Volumes) enter(name string) (*handle, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, ok := v.volumes[name]
	if !ok {
		return nil, noVolume(name)
	}
	if h.removing {
		return nil, fail(InUse, fmt.Errorf("volume %q is being removed", name))
	}
	h.acquiring++
	return h, nil
}

// leave ends an Acquire, and records its result for Status.
func (v *Volumes) leave(ctx context.Context, h *handle, err error) {
	v.note(ctx, h, err)
	v.left(h)
}

// left ends what enter began.
func (v *Volumes) left(h *handle) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.acquiring--
}

// reached returns the reason why no mount reaches a container now, or nil if mounts do.
func (v *Volumes) reached() error {
	if v.config.Reached == nil {
		return nil
	}
	return v.config.Reached()
}

var errHungUp = errors.New("the client hung up: the workspace was taken back")

// takeBack undoes an Acquire whose result does not reach the caller. If it made a workspace for the volume to
// keep, and no other lease has it, the workspace ends too.
func (v *Volumes) takeBack(ctx context.Context, l Lease, made bool) error {
	_, err := v.config.Workspaces.Release(ctx, l)
	if err == nil && made {
		return v.config.Workspaces.EndUnused(ctx, l.Volume)
	}
	return err
}

// attach gives a lease its workspace. made reports whether the workspace is new.
func (v *Volumes) attach(ctx context.Context, h *handle, l Lease) (rec meta.Workspace, made bool, err error) {
	if !v.config.Schemes.Allows(h.opts.Repo.Scheme()) {
		return rec, false, fail(Denied, fmt.Errorf("volume %q: the setting ALLOW_SCHEMES no longer allows %s", l.Volume, h.opts.Repo.Scheme()))
	}
	limit, refused := v.config.Limits.of(h.opts)
	done, err := v.config.Workspaces.Admit(h.clone.Key, l, h.opts.Mode == volume.ModePrivate, limit.Bytes)
	if err != nil {
		return rec, false, fail(Exhausted, fmt.Errorf("volume %q: %w", l.Volume, err))
	}
	defer done()
	began := v.config.Now()
	if h.opts.Mode != volume.ModePrivate {
		var ok bool
		joined := phase.Begin(ctx, phase.Mount)
		err = h.clone.WithRoom(ctx, clone.FewFiles, func() (err error) {
			rec, ok, err = v.config.Workspaces.Join(ctx, l)
			return err
		})
		joined()
		if ok {
			if h.opts.Mode == volume.ModeKeep {
				v.lookBehind(ctx, h)
			}
			return rec, false, nil
		}
	}
	if err == nil && refused != nil { // a setting has changed since the volume was made; what it keeps has its old limit
		err = fail(Denied, fmt.Errorf("volume %q: %w; remove it, and create it with another limit", l.Volume, refused))
	}
	if err == nil {
		err = v.withCheckout(ctx, h, func(co *clone.Checkout) (err error) {
			defer phase.Begin(ctx, phase.Mount)()
			rec, err = v.config.Workspaces.Open(ctx, workspace.Request{
				Lease: l, Options: h.opts, Clone: h.clone, Checkout: co, Limit: limit,
			})
			return err
		})
	}
	if gone, ok := errors.AsType[*workspace.NoCheckpointError](err); ok {
		err = fail(NotFound, fmt.Errorf("volume %q: the checkpoint %q that it begins with is gone: remove the volume", l.Volume, gone.ID))
	}
	if err != nil && ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.Cause(ctx)) {
		doing := h.clone.Activities()
		if doing == "" {
			doing = "preparing " + h.opts.Repo.String()
		}
		took := v.config.Now().Sub(began).Round(time.Second)
		err = fail(Unfinished, fmt.Errorf("%s, not done after %v, continues in the background: run it again", doing, took))
	}
	if err != nil {
		return rec, false, err
	}
	if h.opts.From == "" {
		h.clone.Mounted(ctx, h.opts)
	}
	return rec, true, nil
}

// withCheckout calls f with a checkout for a volume, as clone.WithCheckout does; with none for a volume that begins with
// a checkpoint, which has its layers, and asks no remote.
func (v *Volumes) withCheckout(ctx context.Context, h *handle, f func(*clone.Checkout) error) error {
	if h.opts.From == "" {
		return h.clone.WithCheckout(ctx, h.mountSpec(), f)
	}
	if err := h.clone.Sweep(ctx); err != nil {
		return err
	}
	return h.clone.WithRoom(ctx, clone.FewFiles, func() error { return f(nil) })
}

// Add implements Verbs.
func (v *Volumes) Add(ctx context.Context, l Lease, another string) (ok bool, err error) {
	e := Event{Verb: Mounting, Volume: l.Volume, Lease: another}
	ctx = v.about(ctx, &e)
	if e.Workspace, ok, e.Err = v.config.Workspaces.Add(ctx, l, another); ok || e.Err != nil {
		v.report(ctx, e)
	}
	return ok, e.Err
}

// ForceRelease ends all leases of a holder that is gone and did not release them. See
// workspace.Manager.ForceRelease. A Release of one of them that comes later finds no lease,
// and an Acquire gets another workspace.
func (v *Volumes) ForceRelease(ctx context.Context, volume, holder string) error {
	if err := v.config.Workspaces.HasHolder(volume, holder); err != nil {
		return err // without waiting for the Acquire of a new lease
	}
	unlock, err := v.leases.Lock(ctx, Lease{Volume: volume, ID: holder})
	if err != nil {
		return err
	}
	defer unlock()
	began, e := v.config.Now(), Event{Verb: Forcing, Volume: volume, Lease: holder}
	ctx = v.about(ctx, &e)
	e.Workspace, e.Err = v.config.Workspaces.ForceRelease(ctx, volume, holder)
	e.Took = v.config.Now().Sub(began)
	v.report(ctx, e)
	return e.Err
}

// Release implements Verbs.
func (v *Volumes) Release(ctx context.Context, l Lease) error {
	ctx = context.WithoutCancel(ctx)
	unlock, err := v.leases.Lock(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	began, e := v.config.Now(), Event{Verb: Unmounting, Volume: l.Volume, Lease: l.ID}
	ctx = v.about(ctx, &e)
	if e.Workspace, e.Err = v.config.Workspaces.Release(ctx, l); e.Workspace.ID != "" || e.Err != nil {
		e.Took = v.config.Now().Sub(began)
		v.report(ctx, e)
	}
	return e.Err
}
