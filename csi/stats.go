package csi

import (
	"context"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/verbs"
)

// Units of a VolumeUsage.
const (
	unitBytes  = 1
	unitInodes = 2
)

// volumeStats answers what a volume takes on the disk, as the plugin has measured it: what
// was written to its workspace, and the caches of its clone. statfs would answer with the
// whole disk. It never measures itself.
func (d *Driver) volumeStats(_ context.Context, request []byte) (message, error) {
	r, err := parseVolume(request)
	switch {
	case err != nil:
		return nil, failf(InvalidArgument, "%w", err)
	case r.volume == "":
		return nil, failf(InvalidArgument, "the request has no volume ID")
	case r.path == "":
		return nil, failf(InvalidArgument, "the request has no volume path")
	}
	p, ok := d.publication(r.path)
	if !ok || p.Volume != r.volume {
		return nil, failf(NotFound, "volume %.200q is not published at %.200q", r.volume, r.path)
	}
	v, err := d.Volumes.Get(p.Volume)
	if err != nil {
		return nil, err
	}
	var bytes, inodes int64
	if w := leased(v, p); w != nil {
		bytes, inodes = w.Size.Bytes, w.Size.Inodes
	}
	if n, ok := v.State.Status["cache_bytes"].(int64); ok {
		bytes += n
	}
	usage := func(n, unit int64) message { return message{}.number(3, n).number(4, unit) }
	problem := d.problem(v, p)
	condition := message{}.flag(1, problem != "").text(2, problem)
	return message{}.message(1, usage(bytes, unitBytes)).message(1, usage(inodes, unitInodes)).message(2, condition), nil
}

// leased returns the workspace of a publication; nil if it has none.
func leased(v verbs.Volume, p meta.Publication) *meta.Workspace {
	for i, w := range v.State.Workspaces {
		if w.Leases.Has(p.Lease) {
			return &v.State.Workspaces[i]
		}
	}
	return nil
}

// problem says what is wrong with a publication; empty if nothing is.
func (d *Driver) problem(v verbs.Volume, p meta.Publication) string {
	w := leased(v, p)
	if w == nil {
		return "the workspace is gone: delete the pod"
	}
	target, err := d.targetOf(p.Target)
	if err != nil {
		return err.Error()
	}
	mounted, err := overlay.Mounted(target.Path())
	switch {
	case err != nil:
		return err.Error()
	case !mounted:
		return "the workspace is not mounted any more: delete the pod"
	}
	if list, ok := v.State.Status["warnings"].([]string); ok && len(list) > 0 {
		return list[0]
	}
	return ""
}
