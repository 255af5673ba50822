package janitor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNamedStay checks that no checkpoint with a name is evicted, nor its clone, whatever the limits are.
func TestNamedStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		for _, c := range inv.Clones {
			for n := range c.Parts {
				c.Parts[n].Named = c.Parts[n].Kind == Checkpoint && rapid.Bool().Draw(t, "named")
			}
		}
		after := apply(t, inv, Decide(inv, lim))
		for _, c := range inv.Clones {
			for _, p := range c.Parts {
				if !p.Named {
					continue
				}
				i := slices.IndexFunc(after.Clones, func(o Clone) bool { return o.Key == c.Key })
				if i < 0 || !slices.ContainsFunc(after.Clones[i].Parts, func(o Part) bool { return o.ID == p.ID && o.Named }) {
					t.Fatalf("checkpoint %s of clone %s is gone", p.ID, c.Key)
				}
			}
		}
	})
}

// TestNamedIsSaid checks from when on a plan says that checkpoints with names keep much of a limit, and what it says.
func TestNamedIsSaid(t *testing.T) {
	max100 := Limits{CheckpointTTL: day, MaxSize: 100, Grace: time.Minute}
	subject100 := Limits{CheckpointTTL: day, SubjectMaxSize: 100, Grace: time.Minute}
	for _, tt := range []struct {
		name  string
		lim   Limits
		scene string
		want  string // beginnings, separated by semicolons
	}{
		{"none", max100, "a/1 1h 90; checkpoint d 2h 5", ""},
		{"less than half", max100, "a/1 1h 40; checkpoint d 2h 5 named", ""},
		{"with its clone, half", max100, "a/1 1h 40; checkpoint d 2h 10 named", "1 checkpoints with names, and the clones that they need, keep 50 B of MAX_SIZE=100 B"},
		{"a clone that something else holds", max100, "a/1 1h 40 leased; checkpoint d 2h 10 named", ""},
		{"what can go does not count", max100, "a/1 1h 30; tree x 2h 30; checkpoint e 2h 15; checkpoint d 2h 10 named", ""},
		{"two clones", max100, "a/1 1h 20; checkpoint d 2h 10 named\n b/1 1h 20; checkpoint e 2h 10 named", "2 checkpoints with names, and the clones that they need, keep 60 B of MAX_SIZE"},
		{"of one subject", subject100, "a/1 1h 20; checkpoint d 2h 10 named\n b/1 1h 50; checkpoint e 2h 10 named",
			`1 checkpoints with names of subject "b", and the clones that they need, keep 60 B of SUBJECT_MAX_SIZE=100 B`},
		{"no limit", Limits{CheckpointTTL: day}, "a/1 1h 900; checkpoint d 2h 10 named", ""},
	} {
		p := Decide(scene(t, tt.scene), tt.lim)
		var got []string
		for _, n := range p.Named {
			got = append(got, n.String())
		}
		if text := strings.Join(got, "; "); !strings.HasPrefix(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%s: got %q, want %q", tt.name, text, tt.want)
		}
	}
}

// TestNamedHolders checks what an operator reads when a limit can't be kept because of a checkpoint with a name.
func TestNamedHolders(t *testing.T) {
	inv := scene(t, "a/1 3h 90; checkpoint d 2h 30 named vwork")
	p := Decide(inv, Limits{CheckpointTTL: day, MaxSize: 100, Grace: time.Minute})
	want := `held by the clone of https://host/a/1 for subject "a" (90 B, it has checkpoints with names), ` +
		`checkpoint d of volume "vwork" (30 B, it has a name: only docker repos checkpoints rm removes it)`
	if got := Held(p.Holders); len(p.Missing) != 1 || got != want {
		t.Errorf("missing %v: got\n%s\nwant\n%s", p.Missing, got, want)
	}
	p = Decide(inv, Limits{CheckpointTTL: day, MaxSize: 80, Grace: time.Minute})
	if len(p.TooLarge) != 1 || !strings.Contains(p.TooLarge[0].String(), "it stays, because it has checkpoints with names") {
		t.Errorf("%v", p.TooLarge)
	}
}
