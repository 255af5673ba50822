package driver

import (
	"slices"
	"strings"
	"time"

	"github.com/docker/go-plugins-helpers/volume"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
)

// Get describes a volume, from memory, but for where it is mounted: there the kernel
// is asked.
func (d *Driver) Get(name string) (*volume.Volume, error) {
	h, err := d.find(name)
	if err != nil {
		return nil, err
	}
	leases := d.Workspaces.Leases(name)
	return &volume.Volume{
		Name:       name,
		Mountpoint: d.mountpoint(leases),
		CreatedAt:  h.rec.CreatedAt.UTC().Format(time.RFC3339),
		Status:     d.status(h, leases),
	}, nil
}

// List describes all volumes, by name, without their status.
func (d *Driver) List() []*volume.Volume {
	d.mu.Lock()
	list := make([]*volume.Volume, 0, len(d.volumes))
	for name, h := range d.volumes {
		list = append(list, &volume.Volume{Name: name, CreatedAt: h.rec.CreatedAt.UTC().Format(time.RFC3339)})
	}
	d.mu.Unlock()
	slices.SortFunc(list, func(a, b *volume.Volume) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Path returns where the volume's newest workspace is mounted; empty when it has
// none.
func (d *Driver) Path(name string) (string, error) {
	if _, err := d.find(name); err != nil {
		return "", err
	}
	return d.mountpoint(d.Workspaces.Leases(name)), nil
}

func (d *Driver) mountpoint(leases []meta.Workspace) string {
	if len(leases) == 0 {
		return ""
	}
	return d.Workspaces.MountedAt(leases[len(leases)-1])
}

// leaseStatus is what Status shows of a lease.
type leaseStatus struct {
	ID        string    `json:"id"`
	Mounts    int       `json:"mounts"`
	Commit    string    `json:"commit"`
	MountedAt time.Time `json:"mounted_at"`
}

// filterMeaning says what a volume with filter=blob:none is.
const filterMeaning = "blob:none: only the files of commits that were checked out are here; " +
	"git in the container fetches others from the remote when it needs them, and fails where it can't reach it"

// status is what `docker volume inspect` shows. It has no secret.
func (d *Driver) status(h *handle, workspaces []meta.Workspace) map[string]any {
	leases := []leaseStatus{}
	s := h.clone.Status(h.opts.History)
	reused := s.Used // of the next workspace, or of the newest
	stale := false
	for _, w := range workspaces {
		for id, n := range w.Leases {
			leases = append(leases, leaseStatus{ID: id, Mounts: n, Commit: w.Commit, MountedAt: w.MountedAt.UTC()})
		}
		reused, stale = w.Reused, w.Stale
	}
	slices.SortFunc(leases, func(a, b leaseStatus) int { return a.MountedAt.Compare(b.MountedAt) })
	r, _ := h.clone.Remote.Resolution(h.spec().Source)
	status := map[string]any{
		"subject":    string(h.opts.Subject),
		"repo":       h.opts.Repo.String(),
		"repo_hash":  h.opts.Repo.Hash(),
		"ref":        h.opts.Ref.String(),
		"commit":     r.Commit,
		"pulled_sha": r.Pulled,
		"reused":     reused,
		"stale":      stale,
		"mode":       string(h.opts.Mode),
		"state":      s.State,
		"progress":   s.Progress,
		"leases":     leases,
	}
	if kept, ok := d.Workspaces.Kept(h.rec.Name); ok {
		status["kept_commit"] = kept.Commit
		if n, known := d.behind(h, kept, r); known {
			status["behind"] = n
		}
	}
	d.sizes(h, status)
	if n := len(workspaces); n > 0 && h.opts.Warm != "" {
		status["warm"] = d.warmStatus(workspaces[n-1])
	}
	if n := len(workspaces); n > 0 {
		if why := workspace.NotUsed(workspaces[n-1]); why != nil {
			status["not_used"] = why
		}
	}
	if d.Remap != nil {
		status["userns_remap"] = d.Remap.status(h.opts.UID, h.opts.GID)
	}
	if hasOneMount(workspaces) {
		status["runtime"] = oneMount
	}
	if h.opts.History.NoBlobs {
		status["filter"] = filterMeaning
	}
	if !s.FetchedAt.IsZero() {
		status["fetched_at"] = s.FetchedAt.UTC().Format(time.RFC3339)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	status["last_error"] = h.lastError
	return status
}
