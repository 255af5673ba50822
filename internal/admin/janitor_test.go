package admin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/operator"
)

// keeper returns its fields, and records the calls of EvictClone.
type keeper struct {
	plan    janitor.Plan
	report  janitor.Report
	events  []janitor.Event
	stats   janitor.Stats
	clones  []janitor.CloneInfo
	evicted []string
	fail    error
}

func (k *keeper) Plan(context.Context) (janitor.Plan, error)          { return k.plan, k.fail }
func (k *keeper) Sweep(context.Context) (janitor.Report, error)       { return k.report, k.fail }
func (k *keeper) Events() []janitor.Event                             { return k.events }
func (k *keeper) Stats() janitor.Stats                                { return k.stats }
func (k *keeper) Clones(context.Context) ([]janitor.CloneInfo, error) { return k.clones, k.fail }

func (k *keeper) EvictClone(_ context.Context, key string) error {
	k.evicted = append(k.evicted, key)
	return k.fail
}

// TestJanitor checks that the client returns the values that the janitor returned.
func TestJanitor(t *testing.T) {
	ctx := t.Context()
	log, _ := logger()
	at := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	kind := janitor.Cache
	size := disk.Size{Bytes: 4096, Inodes: 2}
	evictions := []janitor.Eviction{{
		Kind: janitor.Discard, Reason: janitor.Expired, Subject: "s", Clone: "s/1", ID: "d", Volume: "v", Size: size, Text: "old", Unused: time.Hour,
	}}
	k := &keeper{
		plan: janitor.Plan{
			Evictions: evictions, Frees: size, Used: size, Trash: size, Space: disk.Space{Total: size, Free: size}, Late: 1, More: true,
			Missing:  []janitor.Missing{{Reason: janitor.MinFree, Size: size, Text: "full"}},
			Holders:  []janitor.Holder{{Clone: "s/1", Repo: "https://h/x", Subject: "s", Volume: "v", Size: size, Held: janitor.Kept}},
			TooLarge: []janitor.TooLarge{{Clone: "s/1", Repo: "https://h/x", Subject: "s", Size: 5, Limit: 4, Reason: janitor.MaxSize}},
		},
		events: []janitor.Event{{Time: at, Type: janitor.Evicted, Kind: &kind, Reason: janitor.MaxSize, Clone: "s/1", ID: "0", Size: size, Text: "full"}},
		clones: []janitor.CloneInfo{{
			Clone: "s/1", Subject: "s", Repo: "https://h/x", Used: at, Size: size, Parts: map[string]disk.Size{"tree": size}, Held: janitor.Leased,
		}},
	}
	k.report = janitor.Report{Began: at, Took: time.Second, Evicted: evictions, Frees: size, Held: 1, Failed: 2, Left: k.plan}
	k.stats = janitor.Stats{
		Counts:   []janitor.Count{{Type: janitor.Evicted, Kind: &kind, Reason: janitor.MaxSize, Times: 3, Size: size}},
		Findings: []janitor.Finding{{Since: at, Volume: "v", ID: "w", Size: size, Growth: 7, Text: "large"}}, Last: k.report,
	}
	c := operator.Dial(serve(t, Handler(Config{Janitor: k, Log: log})))
	for _, tt := range []struct {
		name string
		call func() (any, error)
		want any
	}{
		{"plan", func() (any, error) { return c.PlanSweep(ctx) }, k.plan},
		{"sweep", func() (any, error) { return c.Sweep(ctx) }, k.report},
		{"events", func() (any, error) { return c.Events(ctx) }, k.events},
		{"stats", func() (any, error) { return c.JanitorStats(ctx) }, k.stats},
		{"clones", func() (any, error) { return c.Clones(ctx) }, k.clones},
	} {
		if got, err := tt.call(); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", tt.name, got, err, tt.want)
		}
	}
	if err := c.EvictClone(ctx, "team%20a/0123"); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		fail   error
		status int
	}{
		{fmt.Errorf("%w %q", janitor.ErrNoClone, "s/1"), 404},
		{fmt.Errorf("evict clone: %w: a container has it", janitor.ErrHeld), 409},
		{errors.New("the disk is gone"), 500},
	} {
		k.fail = tt.fail
		var refused *operator.Error
		if err := c.EvictClone(ctx, "s/1"); !errors.As(err, &refused) || refused.Status != tt.status || refused.Message != tt.fail.Error() {
			t.Errorf("evict: got %v, want %d", err, tt.status)
		}
	}
	if want := []string{"team%20a/0123", "s/1", "s/1", "s/1"}; !reflect.DeepEqual(k.evicted, want) {
		t.Errorf("evicted %q, want %q", k.evicted, want)
	}
	for name, call := range map[string]func() error{
		"plan": func() error { _, err := c.PlanSweep(ctx); return err }, "sweep": func() error { _, err := c.Sweep(ctx); return err },
		"clones": func() error { _, err := c.Clones(ctx); return err },
	} {
		var refused *operator.Error
		if err := call(); !errors.As(err, &refused) || refused.Status != 500 {
			t.Errorf("%s: got %v, want 500", name, err)
		}
	}
}
