package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/verbs"
)

// NodeGetVolumeStats answers what a volume takes on the disk, as the plugin has measured it: what
// was written to its workspace, and the caches of its clone. statfs would answer with the
// whole disk. It never measures itself. Of a workspace with a limit it answers what the limit is,
// and how much of it is left, so that the caches, which don't count for it, are left out.
func (n node) NodeGetVolumeStats(_ context.Context, r *spec.NodeGetVolumeStatsRequest) (*spec.NodeGetVolumeStatsResponse, error) {
	switch {
	case r.VolumeId == "":
		return nil, failf(codes.InvalidArgument, "the request has no volume ID")
	case r.VolumePath == "":
		return nil, failf(codes.InvalidArgument, "the request has no volume path")
	}
	p, ok := n.publication(r.VolumePath)
	if !ok || p.Volume != r.VolumeId {
		return nil, failf(codes.NotFound, "volume %.200q is not published at %.200q", r.VolumeId, r.VolumePath)
	}
	v, err := n.config.Volumes.Get(p.Volume)
	if err != nil {
		return nil, err
	}
	bytes, inodes := &spec.VolumeUsage{Unit: spec.VolumeUsage_BYTES}, &spec.VolumeUsage{Unit: spec.VolumeUsage_INODES}
	if w := leased(v, p); w != nil {
		limit(bytes, w.Size.Bytes, w.Limit.Bytes)
		limit(inodes, w.Size.Inodes, w.Limit.Inodes)
	}
	if size, ok := v.State.Status["cache_bytes"].(int64); ok && bytes.Total == 0 {
		bytes.Used += size
	}
	problem := n.problem(v, p)
	return &spec.NodeGetVolumeStatsResponse{
		Usage: []*spec.VolumeUsage{bytes, inodes}, VolumeCondition: &spec.VolumeCondition{Abnormal: problem != "", Message: problem},
	}, nil
}

// limit sets what is used of a limit; zero for no limit.
func limit(u *spec.VolumeUsage, used, most int64) {
	if u.Used, u.Total = used, most; most > 0 {
		u.Available = max(most-used, 0)
	}
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
