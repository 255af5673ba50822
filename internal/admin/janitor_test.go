package admin

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// TestJanitor checks that the client returns the values that the janitor returned.
func TestJanitor(t *testing.T) {
	ctx := t.Context()
	config := populated()
	k := config.Janitor.(*keeper)
	c := client(t, config)
	key := k.holdings.Clones[0].Clone
	size := api.Size{Bytes: 4096, Inodes: 1}
	evictions := []api.Eviction{{
		Kind: "checkpoint", Reason: "expired", Subject: "team a", Clone: key, ID: "d", Volume: "v", Size: size, Text: "old", Unused: time.Hour,
	}}
	plan := api.Plan{
		Evictions: evictions, Frees: size, Used: size, Trash: size, Space: api.Space{Total: size, Free: size}, Late: 1, More: true,
		Missing:  []api.Missing{{Reason: "min_free", Size: size, Text: "full"}},
		Holders:  []api.Holder{{Clone: key, Repo: "https://h/x", Subject: "team a", Volume: "v", Size: size, Held: "kept by its volume (mode=keep)"}},
		TooLarge: []api.TooLarge{{Clone: key, Repo: "https://h/x", Subject: "team a", Size: 5, Limit: 4, Reason: "max_size", Grace: time.Minute}},
	}
	report := api.Report{Began: at, Took: time.Second, Evicted: evictions, Frees: size, Held: 1, Failed: 2, Left: plan}
	classes := api.Classes{Store: size, LFS: api.Size{Bytes: 2 << 12, Inodes: 2}, Tree: api.Size{Bytes: 3 << 12, Inodes: 3}}
	stats := api.Stats{
		Subjects: 1, Clones: 1, Volumes: 1, Workspaces: 1, Checkpoints: 1, Leases: 1, Size: classes.Total(), Classes: classes,
		Trash: size, Own: size, Space: plan.Space, MaxSize: 9, MinFree: 0.05,
		Counts:   []api.Count{{Type: "evicted", Kind: "cache", Reason: "max_size", Times: 3, Size: size}},
		Findings: []api.Finding{{Since: at, Volume: "v", ID: "w", Size: size, Growth: 7, Text: "large"}}, Last: report,
	}
	for _, tt := range []struct {
		name string
		call func() (any, error)
		want any
	}{
		{"plan", func() (any, error) { return c.Plan(ctx) }, plan},
		{"sweep", func() (any, error) { return c.Sweep(ctx) }, report},
		{"stats", func() (any, error) { return c.Stats(ctx) }, stats},
		{"clones", func() (any, error) { return c.Clones(ctx, api.Filter{}) }, []api.Clone{{
			Clone: key, Subject: "team a", Repo: "https://h/x", Used: at, Size: classes.Total(), Classes: classes, Held: "in use by a container",
		}}},
	} {
		if got, err := tt.call(); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", tt.name, got, err, tt.want)
		}
	}
	k.fail = errors.New("the disk is gone")
	for name, call := range map[string]func() error{
		"plan":     func() error { _, err := c.Plan(ctx); return err },
		"sweep":    func() error { _, err := c.Sweep(ctx); return err },
		"stats":    func() error { _, err := c.Stats(ctx); return err },
		"clones":   func() error { _, err := c.Clones(ctx, api.Filter{}); return err },
		"clone":    func() error { _, err := c.Clone(ctx, key); return err },
		"subjects": func() error { _, err := c.Subjects(ctx, api.Filter{}); return err },
	} {
		var refused *api.Error
		if err := call(); !errors.As(err, &refused) || refused.Status != 500 {
			t.Errorf("%s: got %v, want 500", name, err)
		}
	}
}
