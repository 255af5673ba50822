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
	"github.com/helmdeck/repos/janitor"
)

// Clones is the part of *clone.Manager that the API uses.
type Clones interface {
	Describe(key string) (clone.Description, bool)
}

// holdings returns the janitor's view of all clones, in the order of their keys.
func (c Config) holdings(ctx context.Context) ([]api.Clone, janitor.Holdings, error) {
	h, err := c.Janitor.Holdings(ctx)
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
		Clone: info.Clone, Subject: info.Subject, Repo: info.Repo, Used: info.Used, Held: info.Held.String(), Size: sizeOf(info.Size),
		Classes: api.Classes{
			Store: sizeOf(info.Stores), LFS: sizeOf(info.LFS), Tree: part(janitor.Tree), GitLayer: part(janitor.GitLayer),
			WarmLayer: part(janitor.Warm), Cache: part(janitor.Cache), Workspace: part(janitor.Upper), Discard: part(janitor.Discard),
		},
	}
	if c.Subject == "" { // the clone and the options of its workspaces are lost
		c.Subject = subjectOf(c.Clone)
	}
	return c
}

func (c Config) listClones(r *http.Request) (any, error) {
	clones, _, err := c.holdings(r.Context())
	if err != nil {
		return nil, err
	}
	return page(r, "clones", clones, func(c api.Clone) string { return c.Clone }, columns[api.Clone]{
		"subject": func(c api.Clone) string { return c.Subject },
		"repo":    func(c api.Clone) string { return hashOf(c.Clone) },
	})
}

// cloneKey returns the key of the clone in a request's path.
func cloneKey(r *http.Request) string { return r.PathValue("subject") + "/" + r.PathValue("hash") }

func (c Config) clone(r *http.Request) (any, error) {
	key := cloneKey(r)
	clones, _, err := c.holdings(r.Context())
	if err != nil {
		return nil, err
	}
	i, ok := slices.BinarySearchFunc(clones, key, func(c api.Clone, key string) int { return strings.Compare(c.Clone, key) })
	if !ok {
		return nil, notFound("there is no clone %q", key)
	}
	d := api.CloneDetail{
		Clone: clones[i], State: "absent", Stores: []api.Store{}, Layers: []api.Layer{}, Caches: []api.Cache{},
		Volumes: []string{}, Workspaces: []string{},
	}
	if found, ok := c.Clones.Describe(key); ok {
		describe(&d, found)
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
	for uid, size := range found.Caches {
		d.Caches = append(d.Caches, api.Cache{UID: uid, Size: sizeOf(size.Size), MeasuredAt: measuredAt(size)})
	}
	slices.SortFunc(d.Caches, func(a, b api.Cache) int { return strings.Compare(a.UID, b.UID) })
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
