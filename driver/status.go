package driver

import (
	"slices"
	"time"

	"github.com/docker/go-plugins-helpers/volume"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
)

// Get describes a volume.
func (d *Driver) Get(name string) (*volume.Volume, error) {
	v, err := d.config.Volumes.Get(name)
	if err != nil {
		return nil, err
	}
	shown := show(v)
	shown.Mountpoint, shown.Status = v.State.Mountpoint, d.status(v)
	return shown, nil
}

// List describes all volumes, by name, without their status.
func (d *Driver) List() []*volume.Volume {
	list := []*volume.Volume{}
	for _, v := range d.config.Volumes.List() {
		list = append(list, show(v))
	}
	return list
}

func show(v verbs.Volume) *volume.Volume {
	return &volume.Volume{Name: v.Name, CreatedAt: v.CreatedAt.UTC().Format(time.RFC3339)}
}

// Path returns where the volume's newest workspace is mounted; empty if it has none.
func (d *Driver) Path(name string) (string, error) {
	v, err := d.config.Volumes.Get(name)
	if err != nil {
		return "", err
	}
	return v.State.Mountpoint, nil
}

// leaseStatus is what Status shows of a mount ID.
type leaseStatus struct {
	ID        string    `json:"id"`
	Mounts    int       `json:"mounts"`
	Commit    string    `json:"commit"`
	MountedAt time.Time `json:"mounted_at"`
}

// status is the Status of `docker volume inspect`: that of the volume, and what only
// Docker has.
func (d *Driver) status(v verbs.Volume) map[string]any {
	status := v.State.Status
	leases := []leaseStatus{}
	for _, w := range v.State.Workspaces {
		for _, lease := range w.Leases { // sorted, so leases of one mount ID are neighbours
			id, _ := meta.HolderOf(lease)
			if n := len(leases); n > 0 && leases[n-1].ID == id && leases[n-1].MountedAt.Equal(w.MountedAt) {
				leases[n-1].Mounts++
				continue
			}
			leases = append(leases, leaseStatus{ID: id, Mounts: 1, Commit: w.Commit, MountedAt: w.MountedAt.UTC()})
		}
	}
	slices.SortStableFunc(leases, func(a, b leaseStatus) int { return a.MountedAt.Compare(b.MountedAt) })
	status["leases"] = leases
	if d.config.Remap != nil {
		status["userns_remap"] = d.config.Remap.status(v.Options.UID, v.Options.GID)
	}
	if slices.ContainsFunc(leases, func(l leaseStatus) bool { return l.ID == podmanID }) {
		status["runtime"] = oneMount
	}
	return status
}
