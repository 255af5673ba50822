package commands

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// TestPrune checks the question, what is asked of the plugin, and what is printed.
func TestPrune(t *testing.T) {
	var asked *api.Prune
	answer := api.Pruned{Frees: api.Size{Bytes: 5 << 20}, Evicted: []api.Eviction{
		{Kind: "clone", Subject: "ci", Clone: "ci/0123456789abcdef", Size: api.Size{Bytes: 4 << 20}, Unused: 49 * time.Hour},
		{Kind: "tree", Subject: "ci", Clone: "ci/fedcba9876543210", ID: strings.Repeat("ab", 16), Size: api.Size{Bytes: 1 << 20}, Unused: time.Minute},
	}}
	p := fake{"POST /v1/prune": func(w http.ResponseWriter, r *http.Request) {
		asked = new(api.Prune)
		if err := json.NewDecoder(r.Body).Decode(asked); err != nil {
			t.Error(err)
		}
		json.NewEncoder(w).Encode(answer)
	}}
	const table = `KIND      CLONE                 ID             UNUSED FOR     SIZE
clone     ci/0123456789abcdef                  2 days         4MiB
tree      ci/fedcba9876543210   abababababab   About a minute   1MiB

`
	const question = "WARNING! This will remove:\n  - all clones that no container has and no volume names\n  - all trees that nothing needs any more\n" +
		"Are you sure you want to continue? [y/N] "
	for _, c := range []struct {
		input, args string
		want        *api.Prune
		out, err    string
	}{
		{"", "prune --dry-run", &api.Prune{DryRun: true}, "Space that would be reclaimed: 5MiB\n", ""},
		{"", "prune -f", &api.Prune{}, "Total reclaimed space: 5MiB\n", ""},
		{"y\n", "prune", &api.Prune{}, question, ""},
		{"n\n", "prune", nil, question, "declined"},
		{"", "prune", nil, question, "nobody answered"},
		{"", "prune -af --checkpoints --filter subject=ci --filter repo=https://h/x", &api.Prune{All: true, Checkpoints: true, Subject: "ci", Repo: "https://h/x"}, "Total", ""},
		{"n\n", "prune -a --checkpoints --filter subject=ci", nil, "all checkpoints without a name: nothing can begin with them then\n  - all clones that no container has: the next mounts of their volumes clone again\n" +
			"  - all trees that nothing needs any more\nOf these only what is of the subject \"ci\".\n", "declined"},
		{"", "prune -f --format {{.Kind}}:{{.Bytes}}", &api.Prune{}, "clone:4194304\ntree:1048576\n", ""},
		{"", "prune -f --filter label=x", nil, "", `--filter: "label" is not a filter: allowed are until, subject and repo`},
		{"", "prune -f --filter until", nil, "", `--filter: "until" is not NAME=VALUE`},
		{"", "prune -f --filter until=soon", nil, "", `--filter until: "soon" is neither a time`},
		{"", "prune -f --filter subject=a --filter subject=b", nil, "", "--filter: subject is given twice"},
	} {
		asked = nil
		got := p.run(t, c.input, strings.Fields(c.args)...)
		switch {
		case (asked == nil) != (c.want == nil) || asked != nil && *asked != *c.want:
			t.Errorf("%s: asked for %+v, want %+v", c.args, asked, c.want)
		case !strings.Contains(got.out, c.out):
			t.Errorf("%s: got\n%q, want\n%q", c.args, got.out, c.out)
		case c.err == "" && got.failed != nil, c.err != "" && (got.failed == nil || !strings.Contains(got.failed.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", c.args, got.failed, c.err)
		}
	}
	if p.run(t, "", "prune", "-f", "--filter", "until=24h"); asked == nil || asked.Unused < 24*time.Hour || asked.Unused > 25*time.Hour {
		t.Errorf("until=24h: asked for %+v", asked)
	}
	if got := p.run(t, "", "prune", "-f"); strings.Join(strings.Fields(got.out), " ") != strings.Join(strings.Fields(table+"Total reclaimed space: 5MiB"), " ") {
		t.Errorf("got\n%s, want\n%s", got.out, table)
	}
	if got := p.run(t, "", "prune", "-f"); got.err != "" {
		t.Errorf("with something to remove: %q", got.err)
	}
	answer.Held = 2
	if got := p.run(t, "", "prune", "-f"); !strings.Contains(got.err, "not removed: 2; docker repos ls says by what") {
		t.Errorf("got %q", got.err)
	}
	answer.Failed = 1
	if got := p.run(t, "", "prune", "-f"); got.failed == nil || !strings.Contains(got.failed.Error(), "1 of 3 could not be removed") {
		t.Errorf("got %v", got.failed)
	}
}

// TestPruneNothing checks that a prune that removes nothing says so, and what else could be removed.
func TestPruneNothing(t *testing.T) {
	p := fake{"POST /v1/prune": api.Pruned{Evicted: []api.Eviction{}}}
	const nothing = "There is nothing to remove: docker repos ls says what holds each clone."
	for args, want := range map[string]string{
		"prune -f":                                      nothing + " A free one that a volume names needs --all. Checkpoints without a name need --checkpoints.\n",
		"prune --dry-run --all --checkpoints":           nothing + "\n",
		"prune -af --checkpoints --filter subject=gone": nothing + " Only what fits the filters counts.\n",
	} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed != nil || got.err != want {
			t.Errorf("%s: got %q and %v, want %q", args, got.err, got.failed, want)
		}
	}
}
