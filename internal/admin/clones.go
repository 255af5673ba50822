package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/janitor"
)

// Clones is the part of *clone.Manager that the API uses.
type Clones interface {
	Describe(key string) (clone.Description, bool)
	Activities() []clone.Activity
}

// holdings returns the janitor's view of the chosen clones, in the order of their keys.
func (c Config) holdings(ctx context.Context, of janitor.Choice) ([]api.Clone, janitor.Holdings, error) {
	h, err := c.Janitor.Holdings(ctx, of)
	if err != nil {
		return nil, h, err
	}
	clones := make([]api.Clone, len(h.Clones))
	for i, info := range h.Clones {
		clones[i] = cloneOf(info)
	}
	return clones, h, nil
}

func cloneOf(info janitor.CloneInfo) api.Clone {
	part := func(k janitor.Kind) api.Size { return sizeOf(info.Parts[k]) }
	c := api.Clone{
		Clone: info.Clone, Subject: info.Subject, Repo: info.Repo, Used: info.Used, Held: info.Held.String(),
		Free: info.Held == janitor.Free || info.Held == janitor.Working, Size: sizeOf(info.Size),
		Classes: api.Classes{
			Store: sizeOf(info.Stores), LFS: sizeOf(info.LFS), Tree: part(janitor.Tree), GitLayer: part(janitor.GitLayer),
			WarmLayer: part(janitor.Warm), Cache: part(janitor.Cache), Workspace: part(janitor.Upper), Checkpoint: part(janitor.Checkpoint),
		},
	}
	if c.Subject == "" { // the clone and the options of its workspaces are lost
		c.Subject = subjectOf(c.Clone)
	}
	return c
}

func (c Config) listClones(r *http.Request) (any, error) {
	e, err := extentOf(r, "subject", "repo")
	if err != nil {
		return nil, err
	}
	// The key says whether a clone is on the page, so no others are described.
	subject, repo := e.want["subject"], e.want["repo"]
	dir := volume.Subject(subject).Dir()
	of := janitor.Choice{Limit: e.limit + 1, Match: func(key string) bool {
		return e.covers(key) && (subject == "" || subjectOf(key) == dir) && (repo == "" || hashOf(key) == repo)
	}}
	clones, _, err := c.holdings(r.Context(), of)
	if err != nil {
		return nil, err
	}
	answer := list{}
	if len(clones) > e.limit {
		clones = clones[:e.limit]
		answer["next"] = clones[e.limit-1].Clone
	}
	answer["clones"] = clones
	return answer, nil
}

// cloneKey returns the key of the clone in a request's path.
func cloneKey(r *http.Request) string { return r.PathValue("subject") + "/" + r.PathValue("hash") }

// oneClone returns the clone in a request's path.
func (c Config) oneClone(r *http.Request) (key string, found api.Clone, err error) {
	key = cloneKey(r)
	clones, _, err := c.holdings(r.Context(), janitor.One(key))
	if err == nil && len(clones) == 0 {
		err = notFound("there is no clone %q", key)
	}
	if err != nil {
		return key, api.Clone{}, err
	}
	return key, clones[0], nil
}

func (c Config) clone(r *http.Request) (any, error) {
	key, found, err := c.oneClone(r)
	if err != nil {
		return nil, err
	}
	d := api.CloneDetail{
		Clone: found, State: "absent", Stores: []api.Store{}, Layers: []api.Layer{}, Caches: []api.Cache{},
		Volumes: []string{}, Workspaces: []string{},
	}
	if found, ok := c.Clones.Describe(key); ok {
		describe(&d, found)
	}
	for _, info := range c.Caches.Caches(key) {
		d.Caches = append(d.Caches, cacheOf(d.Clone, info))
	}
	for _, v := range c.Volumes.List() {
		if clone.Key(v.Options.Subject, v.Options.Repo) == key {
			d.Volumes = append(d.Volumes, v.Name)
		}
	}
	for _, w := range c.Workspaces.Workspaces() {
		if w.Clone == key {
			d.Workspaces = append(d.Workspaces, w.ID)
		}
	}
	slices.Sort(d.Workspaces)
	return d, nil
}

// describe adds what the clone itself knows.
func describe(d *api.CloneDetail, found clone.Description) {
	d.CreatedAt, d.State, d.Progress = found.CreatedAt.UTC(), found.State, found.Progress
	for name, s := range found.Records {
		d.FetchedAt = later(d.FetchedAt, s.FetchedAt.UTC())
		d.Stores = append(d.Stores, storeOf(name, s))
	}
	slices.SortFunc(d.Stores, func(a, b api.Store) int { return strings.Compare(a.History, b.History) })
	for _, l := range found.Layers {
		d.Layers = append(d.Layers, api.Layer{
			ID: l.ID, Kind: l.Kind, CreatedAt: l.CreatedAt.UTC(), Used: l.Used.UTC(), Size: sizeOf(l.Size.Size), MeasuredAt: measuredAt(l.Size),
			Held: l.Held, Need: l.Need,
		})
	}
	slices.SortFunc(d.Layers, func(a, b api.Layer) int { return strings.Compare(a.Kind+a.ID, b.Kind+b.ID) })
}

func storeOf(history string, s meta.Store) api.Store {
	out := api.Store{
		History: history, Format: s.Format, FetchedAt: s.FetchedAt.UTC(), Size: sizeOf(s.Size.Size), MeasuredAt: measuredAt(s.Size), Refs: []api.Ref{},
	}
	for name, r := range s.Refs {
		out.Refs = append(out.Refs, api.Ref{Name: name, Ref: r.Ref, Commit: r.Commit, At: r.At.UTC()})
	}
	slices.SortFunc(out.Refs, func(a, b api.Ref) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func sizeOf(s disk.Size) api.Size { return api.Size{Bytes: s.Bytes, Inodes: s.Inodes} }

// measuredAt returns the time of a measurement; nil without one.
func measuredAt(m meta.Measured) *time.Time {
	if m.At.IsZero() {
		return nil
	}
	at := m.At.UTC()
	return &at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
