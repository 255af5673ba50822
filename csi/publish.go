package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
)

// call is a NodePublishVolume that was checked.
type call struct {
	request
	target   overlay.Target
	volume   string
	readOnly bool
	secrets  map[string]string
}

// publication returns the record that the call makes.
func (c call) publication(d *Driver) meta.Publication {
	path := c.target.Path()
	return meta.Publication{
		Target: path, Volume: c.volume, Lease: leaseOf(path), ReadOnly: c.readOnly, Pod: c.pod, At: d.config.Now(),
	}
}

// publish makes a volume's workspace appear at its target. An error leaves nothing behind,
// unless the volume was published before.
func (d *Driver) publish(ctx context.Context, c call) error {
	path := c.target.Path()
	ctx = origin.ForPod(ctx, c.pod.String())
	ctx, cancel := d.patience(ctx)
	defer cancel()
	end, err := d.begin(ctx, path, c.volume)
	if err != nil {
		return err
	}
	defer end()
	p, known := d.publication(path)
	if !known {
		p = c.publication(d)
	}
	held := slices.Contains(d.config.Volumes.Leases(p.Volume), p.Lease)
	switch {
	case known && p.Volume != c.volume:
		return failf(codes.AlreadyExists, "volume %q is published at %q", p.Volume, path)
	case known && held && (p.ReadOnly != c.readOnly || p.Pod != c.pod):
		return failf(codes.AlreadyExists, "volume %q is published at %q already, for another pod or with another access mode", p.Volume, path)
	case held:
		return d.again(ctx, c, p)
	case known: // a crash has left it, or a reboot
		if err := d.undo(context.WithoutCancel(ctx), c.target, p, made{target: true}); err != nil {
			return failf(codes.Unavailable, "%w", err)
		}
	}
	if err := d.mayUse(ctx, c); err != nil {
		return err
	}
	return d.first(ctx, c)
}

// again publishes a volume whose lease for the target exists: kubelet has started again, or a
// crash came before the answer, or the database was lost, which has publications but not leases. The
// pod may have files in the workspace, so nothing is undone after an error, and kubelet is
// not told that nothing is left.
func (d *Driver) again(ctx context.Context, c call, p meta.Publication) error {
	err := d.record(p)
	var m verbs.Mount
	if err == nil {
		m, err = d.config.Volumes.Acquire(ctx, verbs.Lease{Volume: p.Volume, ID: p.Lease})
	}
	var shows bool
	if err == nil {
		shows, err = c.target.Shows(m.Path)
	}
	if err == nil && !shows {
		if err = c.target.Unpublish(nothing); err == nil { // another workspace, that is gone
			err = d.show(c, m.Path, &made{})
		}
	}
	if err != nil && isFinal(err) {
		return failf(codes.Unavailable, "%w", err)
	}
	return err
}

func nothing() {}

// made is what a publish that fails has made, besides the lease.
type made struct {
	volume bool // which did not exist before
	target bool // the directory, or the directory and the mount
}

// first publishes a volume at a target for the first time.
func (d *Driver) first(ctx context.Context, c call) error {
	if err := c.target.Detach(); err != nil { // the database was lost, which had the publication
		return err
	}
	p := c.publication(d)
	if err := d.record(p); err != nil {
		return err
	}
	failpoint.Hit("csi/publish/recorded")
	var m made
	err := d.make(ctx, c, p, &m)
	if err == nil {
		d.config.Log.WithContext(ctx).WithFields(described(p)).Info("publish: done")
		return nil
	}
	// Not ctx, which may have ended.
	if left := d.undo(context.WithoutCancel(ctx), c.target, p, m); left != nil {
		return failf(codes.Unavailable, "%w; not everything that was made for it is gone: %w", err, left)
	}
	return err
}

// make does what first has recorded, and notes in m what it made.
func (d *Driver) make(ctx context.Context, c call, p meta.Publication, m *made) error {
	ctx, err := d.lend(ctx, c)
	if err != nil {
		return err
	}
	_, unknown := d.config.Volumes.Get(c.volume)
	if err := d.config.Volumes.Create(ctx, c.volume, c.options); err != nil {
		return d.advised(c, err)
	}
	m.volume = unknown != nil
	failpoint.Hit("csi/publish/created")
	mount, err := d.config.Volumes.Acquire(ctx, verbs.Lease{Volume: p.Volume, ID: p.Lease})
	if err != nil {
		return d.advised(c, err)
	}
	failpoint.Hit("csi/publish/acquired")
	return d.show(c, mount.Path, m)
}

// show makes the target, and shows there what is mounted at source.
func (d *Driver) show(c call, source string, m *made) (err error) {
	if m.target, err = c.target.Make(); err == nil {
		failpoint.Hit("csi/publish/made")
		if err = c.target.Publish(source, c.readOnly); err == nil {
			m.target = true
		}
	}
	failpoint.Hit("csi/publish/mounted")
	return err
}

// mayUse refuses a volume that exists and is another subject's: a PersistentVolume that
// was used in one namespace must not give its kept workspace to another one. Without a
// workspace, after a fresh start of its clone, the volume makes room. mayUse also
// refuses to publish an ephemeral volume twice.
func (d *Driver) mayUse(ctx context.Context, c call) error {
	v, err := d.config.Volumes.Get(c.volume)
	if err != nil {
		return nil // it is made
	}
	if string(v.Options.Subject) != c.options["subject"] {
		_, kept := v.State.Status["kept_commit"]
		if !isPods(v.Options.Subject) || kept || len(d.config.Volumes.Leases(c.volume)) > 0 {
			return failf(codes.PermissionDenied, "volume %q has the files of another namespace or service account on this node: use another volumeHandle, or let an operator delete them there, "+
				"in the driver's container (docker-repos inspect names the volume's clone; docker-repos evict --discard removes it with them)", c.volume)
		}
		return d.config.Volumes.Remove(ctx, c.volume)
	}
	if c.ephemeral && len(d.config.Volumes.Leases(c.volume)) > 0 {
		return failf(codes.AlreadyExists, "volume %q is published at another path already", c.volume)
	}
	return nil
}

// unpublish undoes publish. What is not published is not an error.
func (d *Driver) unpublish(ctx context.Context, target overlay.Target, name string) error {
	waiting, cancel := d.patience(ctx)
	defer cancel()
	end, err := d.begin(waiting, target.Path(), name)
	if err != nil {
		return err
	}
	defer end()
	p, known := d.publication(target.Path())
	switch {
	case !known:
		p = meta.Publication{Target: target.Path(), Volume: name, Lease: leaseOf(target.Path())}
	case p.Volume != name:
		return failf(codes.NotFound, "volume %.200q is not published at %q, but another one is", name, target.Path())
	}
	ctx = origin.ForPod(ctx, p.Pod.String())
	// Not ctx: kubelet may not ask again, and the work is short.
	return d.undo(context.WithoutCancel(ctx), target, p, made{target: true})
}

// undo removes what is left of a publication: the mount and the directory if m has them, the
// lease, the volume unless it is kept and was there before, the record.
func (d *Driver) undo(ctx context.Context, target overlay.Target, p meta.Publication, m made) error {
	if m.target {
		if err := target.Unpublish(func() { failpoint.Hit("csi/unpublish/unmounted") }); err != nil {
			return err
		}
		failpoint.Hit("csi/unpublish/removed")
	}
	if err := d.config.Volumes.Release(ctx, verbs.Lease{Volume: p.Volume, ID: p.Lease}); err != nil {
		return err
	}
	failpoint.Hit("csi/unpublish/released")
	v, err := d.config.Volumes.Get(p.Volume)
	if err == nil && (m.volume || isEphemeral(v)) {
		// Another pod may have got a lease of a kept volume meanwhile.
		if err := d.config.Volumes.Remove(ctx, p.Volume); err != nil && verbs.KindOf(err) != verbs.InUse {
			return err
		}
	}
	failpoint.Hit("csi/unpublish/volume")
	d.giveBack(p)
	if err := d.forget(p); err != nil {
		return err
	}
	d.config.Log.WithContext(ctx).WithFields(described(p)).Info("unpublish: done")
	return nil
}

// described returns what the log says of a publication. The request's ID leads from there to the lines of
// the volume and to the audit log.
func described(p meta.Publication) logrus.Fields {
	return logrus.Fields{
		"volume": p.Volume, "lease": p.Lease, "target": p.Target, "namespace": p.Pod.Namespace, "pod": p.Pod.Name, "pod_uid": p.Pod.UID,
	}
}

// Sweep removes what is left of publications whose pod kubelet has removed meanwhile,
// without a word: their directories are gone. The others are kubelet's to unpublish.
func (d *Driver) Sweep(ctx context.Context) error {
	var errs []error
	for _, p := range d.Publications() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, d.sweep(ctx, p))
	}
	return errors.Join(errs...)
}

// sweepEvery is how often Run sweeps.
const sweepEvery = 10 * time.Minute

// Run sweeps from time to time until ctx ends: after a reboot kubelet may remove the
// directory of a pod, that was deleted meanwhile, later than the first sweep.
func (d *Driver) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := d.Sweep(ctx); err != nil && ctx.Err() == nil {
			d.config.Log.WithContext(ctx).WithError(err).
				Warn("what pods that have gone left could not be removed: it is tried again")
		}
	}
}

// sweep is Sweep of one publication.
func (d *Driver) sweep(ctx context.Context, p meta.Publication) error {
	target, err := d.targetOf(p.Target)
	if err != nil {
		return fmt.Errorf("volume %q: %w", p.Volume, err)
	}
	end, err := d.begin(ctx, p.Target, p.Volume)
	if err != nil {
		return nil // kubelet was faster, or ctx has ended
	}
	defer end()
	there, err := target.HasParent()
	if there || err != nil {
		return err
	}
	if now, ok := d.publication(p.Target); !ok || now != p {
		return nil
	}
	ctx = origin.ForPod(ctx, p.Pod.String())
	d.config.Log.WithContext(ctx).WithFields(described(p)).Info("a pod has gone without NodeUnpublishVolume")
	return d.undo(ctx, target, p, made{target: true})
}

// isEphemeral reports whether a volume was made for a pod alone. The name of any other one
// may be that of a volume of another front end, in a request for a target that is unknown.
func isEphemeral(v verbs.Volume) bool {
	return v.Options.Mode == volume.ModePrivate && isPods(v.Options.Subject)
}
