package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/quota"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/verbs/removal"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/replica"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/janitor"
)

// at is the time of everything in these tests.
var at = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// keeper is a janitor that returns its fields, and counts Nudges.
type keeper struct {
	plan      janitor.Plan
	report    janitor.Report
	events    []janitor.Event
	more      chan struct{}
	stats     janitor.Stats
	holdings  janitor.Holdings
	nudges    int
	described int // clones in all Holdings
	fail      error
	pruned    janitor.Selection // of the last Prune
	dry       bool
}

func (k *keeper) Plan(context.Context) (janitor.Plan, error)    { return k.plan, k.fail }
func (k *keeper) Sweep(context.Context) (janitor.Report, error) { return k.report, k.fail }
func (k *keeper) Prune(_ context.Context, sel janitor.Selection, dry bool) (janitor.Report, error) {
	k.pruned, k.dry = sel, dry
	return k.report, k.fail
}

func (k *keeper) Stats() janitor.Stats { return k.stats }

func (k *keeper) Holdings(_ context.Context, of janitor.Choice) (janitor.Holdings, error) {
	h := k.holdings
	keys := of.Of(func(yield func(string) bool) {
		for _, c := range h.Clones {
			yield(c.Clone)
		}
	})
	h.Clones = slices.DeleteFunc(slices.Clone(h.Clones), func(c janitor.CloneInfo) bool { return !slices.Contains(keys, c.Clone) })
	k.described += len(h.Clones)
	return h, k.fail
}

func (k *keeper) EventsAfter(seq int64) (list []janitor.Event, more <-chan struct{}) {
	for _, e := range k.events {
		if e.Seq > seq {
			list = append(list, e)
		}
	}
	return list, k.more
}

func (k *keeper) Nudge() { k.nudges++ }

// quotas are the limits of subjects by name.
type quotas struct {
	own  map[string]meta.Subject
	fail error
}

func (q *quotas) Settings() quota.Limits { return quota.Limits{MaxSize: 5, MaxLeases: 6} }
func (q *quotas) List() []meta.Subject   { return slices.Collect(maps.Values(q.own)) }

func (q *quotas) Own(name string) meta.Subject { return q.own[name] }

func (q *quotas) Set(rec meta.Subject) error {
	if q.fail == nil {
		q.own[rec.Name] = rec
	}
	return q.fail
}

// remover records what it was asked to remove or to release.
type remover struct {
	asked []string
	freed removal.Freed
	fail  error
}

func (r *remover) ask(format string, args ...any) (removal.Freed, error) {
	r.asked = append(r.asked, fmt.Sprintf(format, args...))
	return r.freed, r.fail
}

func (r *remover) Evict(_ context.Context, key string) (removal.Freed, error) {
	return r.ask("evict %s", key)
}

func (r *remover) Fresh(_ context.Context, key string, force bool) (removal.Freed, error) {
	return r.ask("fresh %s %t", key, force)
}

func (r *remover) FreshSubject(_ context.Context, name string, force bool) (removal.Freed, error) {
	return r.ask("fresh subject %s %t", name, force)
}

func (r *remover) ForceRelease(_ context.Context, volume, holder string) error {
	_, err := r.ask("release %s %s", volume, holder)
	return err
}

// heap holds workspaces and checkpoints, and records the calls of RemoveCheckpoint and PublishCache.
type heap struct {
	all       []meta.Workspace
	list      []workspace.Checkpoint
	fail      error
	gone      []string
	published func(ctx context.Context, id string) (cache.Result, error)
}

func (h *heap) PublishCache(ctx context.Context, id string) (cache.Result, error) {
	return h.published(ctx, id)
}

func (h *heap) Workspaces() []meta.Workspace        { return h.all }
func (h *heap) MountedAt(meta.Workspace) string     { return "/mnt/w" }
func (h *heap) Checkpoints() []workspace.Checkpoint { return h.list }

func (h *heap) Workspace(id string) (meta.Workspace, bool) {
	for _, w := range h.all {
		if w.ID == id {
			return w, true
		}
	}
	return meta.Workspace{}, false
}

func (h *heap) RemoveCheckpoint(_ context.Context, id string) error {
	h.gone = append(h.gone, id)
	return h.fail
}

// shelf holds volumes.
type shelf []verbs.Volume

func (s shelf) List() []verbs.Volume { return s }

func (s shelf) Rewind(_ context.Context, name, checkpoint string) (meta.Workspace, error) {
	if _, err := s.Get(name); err != nil || checkpoint != "d" {
		return meta.Workspace{}, cmp.Or(err, error(&workspace.NoCheckpointError{ID: checkpoint}))
	}
	return meta.Workspace{ID: "w2", Mode: "keep", Volume: name, From: []string{checkpoint}}, nil
}

// drafts has the ID of the draft that was begun, if one was.
type drafts struct{ id string }

func (d *drafts) Draft(_ context.Context, id string, n workspace.Note) (workspace.Copied, error) {
	switch id {
	case "w":
		d.id = "e"
		return workspace.Copied{ID: d.id, Result: replica.Result{Files: 2, Dirs: 1, Copied: 5}}, nil
	case "d":
		return workspace.Copied{ID: id}, nil
	}
	return workspace.Copied{}, &workspace.NoWorkspaceError{ID: id}
}

func (d *drafts) step(id string) (workspace.Copied, error) {
	if id != d.id {
		return workspace.Copied{}, &workspace.InUseError{Reason: "there is no draft " + id}
	}
	return workspace.Copied{ID: id}, nil
}

func (d *drafts) CatchUp(_ context.Context, id string) (workspace.Copied, error) { return d.step(id) }

func (d *drafts) Keep(_ context.Context, id string) (meta.Workspace, error) {
	_, err := d.step(id)
	return meta.Workspace{ID: "d", Phase: meta.Checkpoint}, err
}

func (d *drafts) DropDraft(context.Context, string) meta.Workspace { return meta.Workspace{} }

func (s shelf) Get(name string) (verbs.Volume, error) {
	for _, v := range s {
		if v.Name == name {
			v.State = &verbs.State{
				Mountpoint: "/mnt/w", Status: map[string]any{"state": "ready"},
				Workspaces: []meta.Workspace{{ID: "w", Volume: name, Leases: meta.Leases{"h", "h#2"}}},
			}
			return v, nil
		}
	}
	return verbs.Volume{}, notFound("no volume %q", name)
}

// catalog describes clones by key.
type catalog map[string]clone.Description

func (c catalog) Describe(key string) (clone.Description, bool) {
	d, ok := c[key]
	return d, ok
}

func (c catalog) Activities() (list []clone.Activity) {
	for key := range c {
		list = append(list, clone.Activity{Key: key, Subject: "team a", Repo: "https://h/x", Now: remote.Now{
			State: "cloning", URL: "https://h/x", For: `a mount of volume "v"`, Began: at,
			Progress: gitprogress.Progress{Phase: "Receiving objects", Percent: 43, Objects: 430, Total: 1000, Amount: "1.20 MiB"},
		}})
	}
	return list
}

// caches have what is published in the caches of clones, by the clone's key, and record what is dropped.
type caches struct {
	list map[string][]warm.CacheInfo
	has  []string // paths
	drop func(ctx context.Context) error
	gone []string
}

func (c *caches) Caches(clone string) []warm.CacheInfo { return c.list[clone] }

func (c *caches) Found(_ string, p meta.WarmPath) (f warm.Found) {
	if len(p.Chain) > 0 {
		f = warm.Found{Built: meta.Built{Commit: "c", BuiltAt: at, Label: "label"}, Why: "another"}
	}
	return f
}

func (c *caches) HasCache(clone string, uid *uint32, rel string) (bool, error) {
	has := slices.ContainsFunc(c.list[clone], func(i warm.CacheInfo) bool { return uid == nil || i.UID == *uid })
	return has && (rel == "" || slices.Contains(c.has, rel)), nil
}

func (c *caches) DropCache(ctx context.Context, clone string, uid *uint32, rel string) (disk.Size, error) {
	c.gone = append(c.gone, partsText(uid, rel)+" in "+clone)
	if c.drop != nil {
		return disk.Size{}, c.drop(ctx)
	}
	return bytes4k(2), nil
}

func bytes4k(n int64) disk.Size { return disk.Size{Bytes: n << 12, Inodes: n} }

// options returns the options of a volume.
func options(subject, repo string) volume.Options {
	o, err := volume.Parse(map[string]string{"subject": subject, "repo": repo}, nil, volume.AllSchemes())
	if err != nil {
		panic(err)
	}
	return o
}

// populated returns the API of a plugin that has one of everything.
func populated() Config {
	log, _ := logger()
	kind := janitor.Cache
	o := options("team a", "https://h/x")
	key := clone.Key(o.Subject, o.Repo)
	size, measured := bytes4k(1), meta.Measured{Size: bytes4k(1), At: at}
	changed := int64(3)
	plan := janitor.Plan{
		Evictions: []janitor.Eviction{{
			Kind: janitor.Checkpoint, Reason: janitor.Expired, Subject: "team a", Clone: key, ID: "d", Volume: "v", Size: size, Text: "old", Unused: time.Hour,
		}},
		Frees: size, Used: size, Trash: size, Space: disk.Space{Total: size, Free: size}, Late: 1, More: true,
		Missing:  []janitor.Missing{{Reason: janitor.MinFree, Size: size, Text: "full"}},
		Holders:  []janitor.Holder{{Clone: key, Repo: "https://h/x", Subject: "team a", Volume: "v", Size: size, Held: janitor.Kept}},
		TooLarge: []janitor.TooLarge{{Clone: key, Repo: "https://h/x", Subject: "team a", Size: 5, Limit: 4, Reason: janitor.MaxSize, Grace: time.Minute}},
	}
	report := janitor.Report{Began: at, Took: time.Second, Evicted: plan.Evictions, Frees: size, Held: 1, Failed: 2, Left: plan}
	return Config{
		Janitor: &keeper{
			plan: plan, report: report,
			events: []janitor.Event{{Seq: 7, Time: at, Type: janitor.Evicted, Kind: &kind, Reason: janitor.MaxSize, Clone: key, ID: "0", Size: size, Text: "full"}},
			stats: janitor.Stats{
				Counts:   []janitor.Count{{Type: janitor.Evicted, Kind: &kind, Reason: janitor.MaxSize, Times: 3, Size: size}},
				Findings: []janitor.Finding{{Since: at, Volume: "v", ID: "w", Size: size, Growth: 7, Text: "large"}}, Last: report,
			},
			holdings: janitor.Holdings{
				Clones: []janitor.CloneInfo{{
					Clone: key, Subject: "team a", Repo: "https://h/x", Used: at, Size: bytes4k(6), Stores: bytes4k(1), LFS: bytes4k(2),
					Parts: map[janitor.Kind]disk.Size{janitor.Tree: bytes4k(3)}, Held: janitor.Leased,
				}},
				Trash: size, Own: size, Space: plan.Space, Limits: janitor.Limits{MaxSize: 9, MinFree: 0.05},
			},
		},
		Caches: &caches{list: map[string][]warm.CacheInfo{key: {{UID: 5, Size: size}, {UID: 1000, GID: 7, Size: size, Layers: 2, Used: at, PublishedAt: at}}}, has: []string{"npm/_cacache"}},
		Clones: catalog{key: {
			Info: clone.Info{
				Key: key, CreatedAt: at,
				Layers: []clone.LayerInfo{{ID: "l", Kind: "git layer", CreatedAt: at, Used: at, Held: true, Need: "a volume"}},
			},
			Status: clone.Status{State: "ready"},
			Records: map[string]meta.Store{"full": {
				Format: "sha1", FetchedAt: at, Size: measured, Refs: map[string]meta.Resolution{"HEAD": {Ref: "refs/heads/main", Commit: "c", At: at}},
			}},
		}},
		Drafts:  &drafts{},
		Volumes: shelf{{Name: "v", CreatedAt: at, Options: o}},
		Workspaces: &heap{
			all: []meta.Workspace{{
				ID: "w", Mode: "private", Clone: key, Volume: "v", Tree: "t", Chain: []string{"t"}, GitLayer: "l", Commit: "c", Leases: meta.Leases{"h", "h#2"},
				Options: o.Map(), MountedAt: at, Warm: []meta.WarmPath{{Path: "target", Head: "k", Chain: []string{"u"}}, {Path: "x", LeftOut: "too large"}},
				Lost: []string{"g"},
			}, {ID: "d", Phase: meta.Checkpoint, Clone: key, Volume: "v", MountedAt: at, EndedAt: at, Size: measured}},
			list: []workspace.Checkpoint{{
				ID: "d", Volume: "v", Clone: key, Subject: "team a", Repo: "https://h/x", EndedAt: at, ExpiresAt: at.Add(time.Hour),
				Changed: &changed, Size: measured,
			}},
		},
		Limits:   &quotas{own: make(map[string]meta.Subject)},
		Settings: []api.Setting{{Name: "CA_BUNDLE", Hidden: true}, {Name: "MAX_SIZE", Value: "9B", Default: "20GiB", Set: true}},
		Version:  "dev", Started: at, Log: log,
	}
}
