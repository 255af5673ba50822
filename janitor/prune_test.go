package janitor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPrune checks what is removed of what nothing uses, and that a dry run says the same and removes nothing.
func TestPrune(t *testing.T) {
	const all = "t/held 9h 10 leased; tree a 9h 1; tree b 9h 1 needed; upper u 9h 5 leased\n" +
		" t/idle 2h 20; tree c 2h 1; cache k 2h 3\n" +
		" t/left 5h 30; checkpoint d 5h 4 ; tree e 5h 2 pinned\n" +
		" u/named 3h 40; git f 3h 2; git g 3h 2 needed; warm w 3h 1"
	named := func(key string) bool { return key == "u/named" }
	for _, tt := range []struct {
		name string
		sel  Selection
		want string
	}{
		{"nothing but what nothing names", Selection{Keeps: named}, "t/idle, t/held/a, u/named/f"},
		{"all", Selection{}, "u/named, t/idle, t/held/a"},
		{"with checkpoints, and then what was below them", Selection{Keeps: named, Checkpoints: true}, "t/left/d, t/left, t/idle, t/held/a, u/named/f"},
		{"of one subject", Selection{Selects: func(c Clone) bool { return c.Subject == "u" }}, "u/named"},
		{"unused for long", Selection{Unused: 4 * time.Hour}, "t/held/a"},
		{"unused for longer", Selection{Unused: 4 * day}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, _ := open(t, Config{}, all)
				dry, err := j.Prune(t.Context(), tt.sel, true)
				if got := s.attempts(); err != nil || got != "" {
					t.Fatalf("a dry run removed %q, %v", got, err)
				}
				r, err := j.Prune(t.Context(), tt.sel, false)
				if got := s.attempts(); err != nil || got != tt.want {
					t.Errorf("removed %q, %v, want %q", got, err, tt.want)
				}
				var planned []string
				for _, e := range dry.Evicted {
					planned = append(planned, strings.TrimSuffix(e.Clone+"/"+e.ID, "/"))
					if e.Reason != Pruned || e.Stops() {
						t.Errorf("%+v", e)
					}
				}
				if got := strings.Join(planned, ", "); got != tt.want || dry.Frees != r.Frees {
					t.Errorf("a dry run says %q, which frees %v, want %q and %v", got, dry.Frees, tt.want, r.Frees)
				}
			})
		})
	}
}

// TestPruneGoesOn checks that something that is in use by now, or can't be removed, does not keep the rest.
func TestPruneGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{}, "t/a 9h 10\n t/b 8h 20\n t/c 7h 30")
		s.fail["t/a"], s.fail["t/b"] = ErrHeld, errors.New("broken")
		r, err := j.Prune(t.Context(), Selection{}, false)
		if err != nil || len(r.Evicted) != 1 || r.Evicted[0].Clone != "t/c" || r.Failed != 1 || r.Held == 0 {
			t.Errorf("got %+v, %v", r, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := j.Prune(ctx, Selection{}, false); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestPruneSparesNewClones checks that a clone that was just made for a first mount stays.
func TestPruneSparesNewClones(t *testing.T) {
	plan, _ := decidePrune(scene(t, "t/new 1m 5 new\n t/old 11m 5 new"), Limits{Grace: 10 * time.Minute}, Selection{})
	if len(plan.Evictions) != 1 || plan.Evictions[0].Clone != "t/old" {
		t.Errorf("got %+v", plan.Evictions)
	}
}

// TestPruneCountsWork checks that the clones that only work keeps are counted, and no others.
func TestPruneCountsWork(t *testing.T) {
	const all = "t/fetched 9h 10 working\n t/mounting 9h 10 pending\n t/kept 9h 10 kept\n t/named 9h 10 working\n t/young 1m 10 working\n t/idle 9h 10"
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, Config{}, all)
		sel := Selection{Keeps: func(key string) bool { return key == "t/named" }, Unused: time.Hour}
		for _, dry := range []bool{true, false} {
			if r, err := j.Prune(t.Context(), sel, dry); err != nil || r.Held != 2 || len(r.Evicted) != 1 {
				t.Errorf("dry %t: got %+v, %v, want two that are held, and one that is not", dry, r, err)
			}
		}
	})
}
