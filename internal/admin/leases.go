package admin

import (
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
)

func (c Config) listLeases(r *http.Request) (any, error) {
	return page(r, "leases", c.leases(), func(l api.Lease) string { return l.ID }, columns[api.Lease]{
		"subject": func(l api.Lease) string { return l.Subject },
		"repo":    func(l api.Lease) string { return hashOf(l.Clone) },
		"clone":   func(l api.Lease) string { return l.Clone },
		"volume":  func(l api.Lease) string { return l.Volume },
	})
}

// leases returns the leases of all workspaces, in no order.
func (c Config) leases() []api.Lease {
	leases := leasesOf(c.Workspaces.Workspaces())
	if c.Publications == nil {
		return leases
	}
	pods := make(map[string]string)
	for _, p := range c.Publications() {
		pods[p.Volume+"/"+p.Lease] = p.Pod.Namespace + "/" + p.Pod.Name
	}
	for i := range leases {
		leases[i].Pod = pods[leases[i].ID]
	}
	return leases
}

// leasesOf returns the leases of workspaces, which are sorted by age. The leases of one
// holder of a volume are one; its workspace is the newest.
func leasesOf(workspaces []meta.Workspace) []api.Lease {
	at, leases := make(map[string]int), []api.Lease{}
	for _, w := range workspaces {
		for _, id := range w.Leases {
			holder, _ := meta.HolderOf(id)
			key := w.Volume + "/" + holder
			i, known := at[key]
			if !known {
				i = len(leases)
				at[key] = i
				leases = append(leases, api.Lease{ID: key, Volume: w.Volume, Holder: holder})
			}
			l := &leases[i]
			l.Mounts++
			l.Subject, l.Repo, l.Clone, l.Workspace = subjectName(w), w.Options["repo"], w.Clone, w.ID
			l.Commit, l.MountedAt = w.Commit, w.MountedAt.UTC()
		}
	}
	return leases
}
