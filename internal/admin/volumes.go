package admin

import (
	"context"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
)

// Volumes is the part of *verbs.Volumes that the API uses.
type Volumes interface {
	List() []verbs.Volume
	Get(name string) (verbs.Volume, error)
	Rewind(ctx context.Context, name, checkpoint string) (meta.Workspace, error)
}

func (c Config) listVolumes(r *http.Request) (any, error) {
	leases := make(map[string]int)
	for _, l := range c.leases() {
		leases[l.Volume]++
	}
	volumes := []api.Volume{}
	for _, v := range c.Volumes.List() {
		volumes = append(volumes, volumeOf(v, leases[v.Name]))
	}
	return page(r, "volumes", volumes, func(v api.Volume) string { return v.Name }, columns[api.Volume]{
		"subject": func(v api.Volume) string { return v.Subject },
		"repo":    func(v api.Volume) string { return hashOf(v.Clone) },
		"clone":   func(v api.Volume) string { return v.Clone },
	})
}

func (c Config) volume(r *http.Request) (any, error) {
	v, err := c.Volumes.Get(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return api.VolumeDetail{
		Volume: volumeOf(v, len(leasesOf(v.State.Workspaces))), Mountpoint: v.State.Mountpoint, Status: v.State.Status,
	}, nil
}

func volumeOf(v verbs.Volume, leases int) api.Volume {
	o := v.Options
	return api.Volume{
		Name: v.Name, CreatedAt: v.CreatedAt.UTC(), Subject: string(o.Subject), Repo: o.Repo.String(), Ref: o.Ref.String(),
		Clone: clone.Key(o.Subject, o.Repo), Mode: string(o.Mode), Leases: leases, Options: o.Map(),
	}
}
