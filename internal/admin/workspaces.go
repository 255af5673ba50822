package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// Workspaces is the part of *workspace.Manager that the API uses.
type Workspaces interface {
	Workspaces() []meta.Workspace
	Workspace(id string) (meta.Workspace, bool)
	MountedAt(meta.Workspace) string
	Checkpoints() []workspace.Checkpoint
	RemoveCheckpoint(ctx context.Context, id string) error
	PublishCache(ctx context.Context, id string) (cache.Result, error)
}

func (c Config) listWorkspaces(r *http.Request) (any, error) {
	workspaces := []api.Workspace{}
	for _, w := range c.Workspaces.Workspaces() {
		workspaces = append(workspaces, workspaceOf(w))
	}
	return page(r, "workspaces", workspaces, func(w api.Workspace) string { return w.ID }, columns[api.Workspace]{
		"subject": func(w api.Workspace) string { return w.Subject },
		"repo":    func(w api.Workspace) string { return hashOf(w.Clone) },
		"clone":   func(w api.Workspace) string { return w.Clone },
		"volume":  func(w api.Workspace) string { return w.Volume },
		"phase":   func(w api.Workspace) string { return w.Phase },
	})
}

func workspaceOf(w meta.Workspace) api.Workspace {
	out := api.Workspace{
		ID: w.ID, Phase: w.Phase.String(), Mode: w.Mode, Volume: w.Volume, Subject: subjectName(w), Repo: w.Options["repo"], Clone: w.Clone,
		Ref: w.Ref, Commit: w.Commit, Leases: []string{}, UID: w.UID, GID: w.GID, ForeignUID: w.Foreign, MountedAt: w.MountedAt.UTC(),
		Reused: w.Reused, Stale: w.Stale, Shallow: w.Shallow, From: w.From, Size: sizeOf(w.Size.Size), MeasuredAt: measuredAt(w.Size),
		Limit: sizeOf(w.Limit),
	}
	if !w.EndedAt.IsZero() {
		at := w.EndedAt.UTC()
		out.EndedAt = &at
	}
	for _, id := range w.Leases { // sorted, so the leases of one holder are neighbours
		if holder, _ := meta.HolderOf(id); !slices.Contains(out.Leases, holder) {
			out.Leases = append(out.Leases, holder)
		}
	}
	return out
}

func (c Config) workspace(r *http.Request) (any, error) {
	id := r.PathValue("id")
	w, ok := c.Workspaces.Workspace(id)
	if !ok {
		return nil, notFound("there is no workspace %q", id)
	}
	d := api.WorkspaceDetail{
		Workspace: workspaceOf(w), Mountpoint: c.Workspaces.MountedAt(w), Tree: notNil(w.Chain), GitLayer: w.GitLayer, Warm: []api.Warmed{},
		Lost: w.Lost, Options: w.Options,
	}
	if d.Options == nil {
		d.Options = map[string]string{}
	}
	for _, p := range w.Warm {
		if warm.IsCache(p) {
			continue
		}
		f := c.Caches.Found(w.Clone, p)
		d.Warm = append(d.Warm, api.Warmed{
			Path: p.Path, Head: p.Head, Layers: notNil(p.Chain), Commit: f.Commit, BuiltAt: f.BuiltAt.UTC(), Label: f.Label, Why: f.Why, LeftOut: p.LeftOut,
		})
	}
	return d, nil
}

// notNil returns a list that JSON shows as [] and not as null.
func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (c Config) listCheckpoints(r *http.Request) (any, error) {
	checkpoints := []api.Checkpoint{}
	for _, d := range c.Workspaces.Checkpoints() {
		checkpoints = append(checkpoints, checkpointOf(d))
	}
	return page(r, "checkpoints", checkpoints, func(d api.Checkpoint) string { return d.ID }, columns[api.Checkpoint]{
		"subject": func(d api.Checkpoint) string { return d.Subject },
		"repo":    func(d api.Checkpoint) string { return hashOf(d.Clone) },
		"clone":   func(d api.Checkpoint) string { return d.Clone },
		"volume":  func(d api.Checkpoint) string { return d.Volume },
	})
}

func (c Config) checkpoint(r *http.Request) (any, error) { return c.checkpointWith(r.PathValue("id")) }

// checkpointWith returns the checkpoint with an ID.
func (c Config) checkpointWith(id string) (any, error) {
	for _, d := range c.Workspaces.Checkpoints() {
		if d.ID == id {
			return checkpointOf(d), nil
		}
	}
	return nil, &workspace.NoCheckpointError{ID: id}
}

func checkpointOf(d workspace.Checkpoint) api.Checkpoint {
	out := api.Checkpoint{
		ID: d.ID, Volume: d.Volume, Subject: d.Subject, Repo: d.Repo, Clone: d.Clone, Commit: d.Commit, Ref: d.Ref,
		EndedAt: d.EndedAt.UTC(), ExpiresAt: d.ExpiresAt.UTC(), Made: d.Made.String(), Note: api.Note{Name: d.Name, Message: d.Message}, From: d.Below, InUse: d.Used, Changed: d.Changed, MeasuredAt: measuredAt(d.Size),
	}
	if out.MeasuredAt != nil {
		out.Bytes = &d.Size.Bytes
	}
	return out
}

func (c Config) removeCheckpoint(r *http.Request) (any, error) {
	id := r.PathValue("id")
	for _, d := range c.Workspaces.Checkpoints() {
		if d.ID == id {
			note(r, func(rec *api.AuditRecord) {
				rec.Subject, rec.Repo, rec.Ref, rec.Commit, rec.Clone, rec.Volume, rec.Bytes = d.Subject, d.Repo, d.Ref, d.Commit, d.Clone, d.Volume, d.Size.Bytes
			})
		}
	}
	if err := c.Workspaces.RemoveCheckpoint(r.Context(), id); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithField("checkpoint", id).Info("checkpoint removed")
	return nil, nil
}
