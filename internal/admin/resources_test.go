package admin

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
)

// TestResources checks what the client returns for a plugin that has one of everything.
func TestResources(t *testing.T) {
	ctx, config := t.Context(), populated()
	c := client(t, config)
	o := options("team a", "https://h/x")
	key, set := clone.Key(o.Subject, o.Repo), o.Map()
	size := api.Size{Bytes: 4096, Inodes: 1}
	classes := api.Classes{Store: size, LFS: api.Size{Bytes: 2 << 12, Inodes: 2}, Tree: api.Size{Bytes: 3 << 12, Inodes: 3}}
	aClone := api.Clone{
		Clone: key, Subject: "team a", Repo: "https://h/x", Used: at, Size: classes.Total(), Classes: classes, Held: "in use by a container",
	}
	subject := api.Subject{
		Name: "team a", Dir: "team%20a", Size: classes.Total(), Classes: classes, Used: at, Clones: 1, Volumes: 1, Workspaces: 1, Checkpoints: 1, Leases: 1,
		Limits: api.Limits{MaxSize: 5, MaxLeases: 6},
	}
	aVolume := api.Volume{
		Name: "v", CreatedAt: at, Subject: "team a", Repo: "https://h/x", Ref: "HEAD", Clone: key, Mode: "private", Leases: 1, Options: set,
	}
	aWorkspace := api.Workspace{
		ID: "w", Phase: "mounted", Mode: "private", Volume: "v", Subject: "team a", Repo: "https://h/x", Clone: key, Commit: "c",
		Leases: []string{"h"}, MountedAt: at,
	}
	ended := api.Workspace{
		ID: "d", Phase: "checkpoint", Volume: "v", Subject: "team%20a", Clone: key, Leases: []string{}, MountedAt: at, EndedAt: &at,
		Size: size, MeasuredAt: &at,
	}
	all := []api.Cache{
		{Clone: key, Subject: "team a", Repo: "https://h/x", UID: 5, Size: size},
		{Clone: key, Subject: "team a", Repo: "https://h/x", UID: 1000, GID: 7, Size: size, Layers: 2, Used: at, PublishedAt: at},
	}
	for _, tt := range []struct {
		name string
		call func() (any, error)
		want any
	}{
		{"subjects", func() (any, error) { return c.Subjects(ctx, api.Filter{}) }, []api.Subject{subject}},
		{"subject", func() (any, error) { return c.Subject(ctx, "team a") }, subject},
		{"clone", func() (any, error) { return c.Clone(ctx, key) }, api.CloneDetail{
			Clone: aClone, CreatedAt: at, State: "ready", FetchedAt: at,
			Stores: []api.Store{{
				History: "full", Format: "sha1", FetchedAt: at, Size: size, MeasuredAt: &at,
				Refs: []api.Ref{{Name: "HEAD", Ref: "refs/heads/main", Commit: "c", At: at}},
			}},
			Layers:  []api.Layer{{ID: "l", Kind: "git layer", CreatedAt: at, Used: at, Held: true, Need: "a volume"}},
			Caches:  all,
			Volumes: []string{"v"}, Workspaces: []string{"d", "w"},
		}},
		{"caches", func() (any, error) { return c.Caches(ctx, api.Filter{}) }, all},
		{"volumes", func() (any, error) { return c.Volumes(ctx, api.Filter{}) }, []api.Volume{aVolume}},
		{"volume", func() (any, error) { return c.Volume(ctx, "v") }, api.VolumeDetail{
			Volume: aVolume, Mountpoint: "/mnt/w", Status: map[string]any{"state": "ready"},
		}},
		{"leases", func() (any, error) { return c.Leases(ctx, api.Filter{}) }, []api.Lease{{
			ID: "v/h", Volume: "v", Holder: "h", Mounts: 2, Subject: "team a", Repo: "https://h/x", Clone: key, Workspace: "w", Commit: "c", MountedAt: at,
		}}},
		{"work", func() (any, error) { return c.Work(ctx, api.Filter{}) }, []api.Work{{
			ID: key + "/1714564800000000000/cloning", Clone: key, Subject: "team a", Repo: "https://h/x", URL: "https://h/x", State: "cloning", Since: at,
			For: `a mount of volume "v"`, Progress: "receiving objects 43% (1.20 MiB)", Objects: 430, Total: 1000,
		}}},
		{"workspaces", func() (any, error) { return c.Workspaces(ctx, api.Filter{}) }, []api.Workspace{ended, aWorkspace}},
		{"mounted workspaces", func() (any, error) { return c.Workspaces(ctx, api.Filter{Phase: "mounted"}) }, []api.Workspace{aWorkspace}},
		{"workspace", func() (any, error) { return c.Workspace(ctx, "w") }, api.WorkspaceDetail{
			Workspace: aWorkspace, Mountpoint: "/mnt/w", Tree: []string{"t"}, GitLayer: "l", Lost: []string{"g"}, Options: set,
			Warm: []api.Warmed{{Path: "target", Head: "k", Layers: []string{"u"}, Commit: "c", BuiltAt: at, Label: "label", Why: "another"}, {Path: "x", Layers: []string{}, LeftOut: "too large"}},
		}},
		{"settings", func() (any, error) { return c.Settings(ctx) }, config.Settings},
		{"events", func() (any, error) { return c.Events(ctx) }, []api.Event{{
			Seq: 7, Time: at, Type: "evicted", Kind: "cache", Reason: "max_size", Clone: key, ID: "0", Size: size, Text: "full",
		}}},
	} {
		if got, err := tt.call(); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got\n%+v, %v\nwant\n%+v", tt.name, got, err, tt.want)
		}
	}
	if v, err := c.Version(ctx); err != nil || v.API != "v1" || v.Version != "dev" || v.Go == "" || !v.StartedAt.Equal(at) {
		t.Errorf("version: %+v, %v", v, err)
	}
	for name, call := range map[string]func() error{
		"subject":    func() error { _, err := c.Subject(ctx, "team b"); return err },
		"clone":      func() error { _, err := c.Clone(ctx, "team%20a/0"); return err },
		"volume":     func() error { _, err := c.Volume(ctx, "w"); return err },
		"workspace":  func() error { _, err := c.Workspace(ctx, "v"); return err },
		"checkpoint": func() error { _, err := c.Checkpoint(ctx, "w"); return err },
	} {
		var refused *api.Error
		if err := call(); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
			t.Errorf("an unknown %s: got %v, want 404", name, err)
		}
	}
}

// TestFilters checks that each filter selects, however the URL of a repository is spelt.
func TestFilters(t *testing.T) {
	c := client(t, populated())
	key := clone.Key("team a", options("team a", "https://h/x").Repo)
	for _, tt := range []struct {
		match, other api.Filter
		lists        []string
	}{
		{api.Filter{Subject: "team a"}, api.Filter{Subject: "team"}, []string{"subjects", "clones", "caches", "volumes", "leases", "work", "checkpoints"}},
		{api.Filter{Repo: "https://H:443/x.git"}, api.Filter{Repo: "https://h/y"}, []string{"clones", "caches", "volumes", "leases", "work", "workspaces", "checkpoints"}},
		{api.Filter{Clone: key}, api.Filter{Clone: key + "0"}, []string{"caches", "volumes", "leases", "workspaces", "checkpoints"}},
		{api.Filter{Volume: "v"}, api.Filter{Volume: "w"}, []string{"leases", "workspaces", "checkpoints"}},
		{api.Filter{Phase: "checkpoint"}, api.Filter{Phase: "parked"}, []string{"workspaces"}},
	} {
		for name, count := range counters(t.Context(), c) {
			n, err := count(tt.match)
			none, otherErr := count(tt.other)
			if !slices.Contains(tt.lists, name) {
				var refused *api.Error
				if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
					if name != "workspaces" && name != "credentials" { // they have the others
						t.Errorf("%s by %+v: got %d, %v; want 400", name, tt.match, n, err)
					}
				}
				continue
			}
			if err != nil || otherErr != nil || n == 0 || none != 0 {
				t.Errorf("%s by %+v: %d, %v; by %+v: %d, %v", name, tt.match, n, err, tt.other, none, otherErr)
			}
		}
	}
	if _, err := c.Clones(t.Context(), api.Filter{Repo: "no URL"}); err == nil {
		t.Error("accepted what is no URL")
	}
}

// counters count the records of each list.
func counters(ctx context.Context, c *api.Client) map[string]func(api.Filter) (int, error) {
	return map[string]func(api.Filter) (int, error){
		"subjects":    func(f api.Filter) (int, error) { l, err := c.Subjects(ctx, f); return len(l), err },
		"clones":      func(f api.Filter) (int, error) { l, err := c.Clones(ctx, f); return len(l), err },
		"caches":      func(f api.Filter) (int, error) { l, err := c.Caches(ctx, f); return len(l), err },
		"volumes":     func(f api.Filter) (int, error) { l, err := c.Volumes(ctx, f); return len(l), err },
		"leases":      func(f api.Filter) (int, error) { l, err := c.Leases(ctx, f); return len(l), err },
		"workspaces":  func(f api.Filter) (int, error) { l, err := c.Workspaces(ctx, f); return len(l), err },
		"checkpoints": func(f api.Filter) (int, error) { l, err := c.Checkpoints(ctx, f); return len(l), err },
	}
}

// TestLeasesOfOneHolder checks that the leases of one holder of a volume are one, of its newest
// workspace.
func TestLeasesOfOneHolder(t *testing.T) {
	list := leasesOf([]meta.Workspace{
		{ID: "1", Volume: "v", Clone: "s/1", Leases: meta.Leases{"h", "h#2", "i"}, MountedAt: at},
		{ID: "2", Volume: "v", Clone: "s/1", Leases: meta.Leases{"h#3"}, MountedAt: at.Add(time.Minute)},
		{ID: "3", Volume: "v/h", Clone: "s/1", Leases: meta.Leases{"h"}, MountedAt: at},
	})
	if len(list) != 3 || list[0].ID != "v/h" || list[0].Mounts != 3 || list[0].Workspace != "2" || list[1].ID != "v/i" || list[2].ID != "v/h/h" {
		t.Errorf("%+v", list)
	}
}
