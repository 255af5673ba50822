package verbs

import (
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

// Get implements Verbs. It answers from memory, except that it asks the kernel whether the
// workspace is mounted.
func (v *Volumes) Get(name string) (Volume, error) {
	h, err := v.find(name)
	if err != nil {
		return Volume{}, err
	}
	leased := v.config.Workspaces.Leases(name)
	state := &State{Workspaces: leased, Status: v.status(h, leased)}
	if n := len(leased); n > 0 {
		state.Mountpoint = v.config.Workspaces.MountedAt(leased[n-1])
	}
	return Volume{Name: name, CreatedAt: h.rec.CreatedAt, Options: h.opts, State: state}, nil
}

// Options implements Verbs.
func (v *Volumes) Options(name string) (volume.Options, error) {
	h, err := v.find(name)
	if err != nil {
		return volume.Options{}, err
	}
	return h.opts, nil
}

// List implements Verbs.
func (v *Volumes) List() []Volume {
	v.mu.Lock()
	list := make([]Volume, 0, len(v.volumes))
	for name, h := range v.volumes {
		list = append(list, Volume{Name: name, CreatedAt: h.rec.CreatedAt, Options: h.opts})
	}
	v.mu.Unlock()
	slices.SortFunc(list, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Leases implements Verbs.
func (v *Volumes) Leases(name string) (ids []string) {
	for _, w := range v.config.Workspaces.Leases(name) {
		ids = append(ids, w.Leases...)
	}
	return ids
}

// filterMeaning explains filter=blob:none in Status.
const filterMeaning = "blob:none: only the files of commits that were checked out are here; " +
	"git in the container fetches others from the remote when it needs them, and fails where it can't reach it"

// shallowMeaning explains cold=shallow in Status.
const shallowMeaning = "cold=shallow: the full history was not fetched yet, so the workspace has the newest commits alone; " +
	"git fetch --unshallow there brings the rest"

// status returns the information about a volume that users may see. It contains no secret.
func (v *Volumes) status(h *handle, workspaces []meta.Workspace) map[string]any {
	s := h.clone.State(h.spec())
	// These are about the next workspace, if none is leased.
	reused, stale, shallow := s.Used, false, s.Shallow
	for _, w := range workspaces {
		reused, stale, shallow = w.Reused, w.Stale, w.Shallow
	}
	r := s.Resolution
	status := map[string]any{
		"volume_id":  h.rec.ID,
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
	}
	limit, _ := v.config.Limits.of(h.opts)
	if kept, ok := v.config.Workspaces.Kept(h.rec.Name); ok {
		limit = kept.Limit // the next container gets this workspace
		status["kept_commit"] = kept.Commit
		if n, known := v.behind(h, kept, r); known {
			status["behind"] = n
		}
	}
	if n := len(workspaces); n > 0 {
		limit = workspaces[n-1].Limit
	}
	status["limit_bytes"], status["limit_inodes"] = limit.Bytes, limit.Inodes
	v.sizes(h, len(workspaces), r.Commit, status)
	if n := len(workspaces); n > 0 && h.opts.Warm != "" {
		status["warm"] = v.warmStatus(workspaces[n-1])
	}
	if n := len(workspaces); n > 0 {
		if why := upper.NotUsed(workspaces[n-1]); why != nil {
			status["not_used"] = why
		}
	}
	if h.opts.History.NoBlobs {
		status["filter"] = filterMeaning
	}
	if shallow {
		status["shallow"] = shallowMeaning
	}
	if !s.FetchedAt.IsZero() {
		status["fetched_at"] = s.FetchedAt.UTC().Format(time.RFC3339)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	status["last_error"] = h.lastError
	if h.errorOf != "" {
		status["last_error_request"] = h.errorOf
	}
	return status
}
