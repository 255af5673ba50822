package commands

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

// formless are the commands that print neither a list nor an object, but what they have done, or a file.
var formless = []string{
	"checkpoint", "rewind", "diff", "export", "env", "evict", "cache rm", "cache publish", "subjects set", "subjects fresh", "leases release", "checkpoints fork", "checkpoints rm",
	"credentials put", "credentials rm",
}

// TestFormatEverywhere checks that each command that prints a list or an object has --format.
func TestFormatEverywhere(t *testing.T) {
	left := slices.Clone(formless)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
		}
		if cmd.HasAvailableSubCommands() {
			return
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "repos ")
		i := slices.Index(left, path)
		switch has := cmd.Flags().Lookup("format") != nil; {
		case !has && i < 0:
			t.Errorf("%s has no --format", path)
		case has && i >= 0:
			t.Errorf("%s has --format: take it from the list", path)
		case i >= 0:
			left = slices.Delete(left, i, i+1)
		}
	}
	check(New(new(session.Session), "repos"))
	if len(left) > 0 {
		t.Errorf("there are no commands %q", left)
	}
}

// TestFormatOfObjects checks JSON and templates of the commands that print one object.
func TestFormatOfObjects(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := looked()
	p["GET /v1/checkpoints/d1"] = api.Checkpoint{ID: "d1", Volume: "web", EndedAt: at}
	p["POST /v1/warm"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"result":{"clone":"ci/1","commit":"c0ffee"}}` + "\n"))
	}
	for args, want := range map[string]string{
		"status --format {{.Head}}:{{.Added}} one":         "beef:1\n",
		"checkpoints show --format {{.ID}}:{{.Volume}} d1": "d1:web\n",
		"warm --format {{.Clone}}:{{.Commit}} https://h":   "ci/1:c0ffee\n",
	} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed != nil || got.out != want {
			t.Errorf("%s: got %q and %v, want %q", args, got.out, got.failed, want)
		}
	}
	if got := p.run(t, "", "status", "--format", "json", "one"); got.failed != nil || !strings.HasPrefix(got.out, `{"id":"a1","phase":"mounted",`) {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	if got := p.run(t, "", "checkpoints", "show", "--format", "{{.Nothing}}", "d1"); got.failed == nil || !strings.Contains(got.failed.Error(), "template parsing error") {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
}
