package commands

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/cli/cli"

	"github.com/helmdeck/repos/api"
)

// TestCompared: diff takes A..B, and a volume whose name has two dots.
func TestCompared(t *testing.T) {
	for word, want := range map[string]string{
		"one..left": "diff of c1 from=a1\n", "step-1..one": "diff of a1 from=c1\n", "one..c": "diff of c1 from=a1\n",
		"one..": "does not name two workspaces", "..one": "does not name two workspaces", "one...left": "does not name two workspaces",
		"one..nothing": `that "nothing" names`, "nothing..one": `that "nothing" names`, "one..gone": `volume "gone" has left 2 checkpoints`,
	} {
		got := looked().run(t, "", "diff", word)
		if strings.HasPrefix(want, "diff") != (got.failed == nil) || got.failed == nil && got.out != want || got.failed != nil && !strings.Contains(got.failed.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", word, got.out, got.failed, want)
		}
	}
}

// TestConflicts: the paths are on standard output, all else on standard error, and the exit code of conflicts is not that of
// an error.
func TestConflicts(t *testing.T) {
	two, none := int64(2), int64(0)
	for _, tt := range []struct {
		answer   api.Conflicts
		out, err string
		code     int
	}{
		{api.Conflicts{Clean: true, Workspaces: []api.Merged{{Uncommitted: &none}, {Uncommitted: &none}}}, "", "", 0},
		{api.Conflicts{
			Paths: []api.ConflictPath{{Path: "a\nb"}, {Path: "x", RawPath: "/3g="}}, More: 3, Workspaces: []api.Merged{{Uncommitted: &two}, {UncommittedError: "slow"}},
		}, "a\\u000ab\n\\xffx\n", "\"one\" has 2 files that are not as in its commit, and no part of this\nIt is not known whether \"left\" has changes that are not committed: slow\n… and 3 more paths\n", 2},
	} {
		socket := looked()
		socket["GET /v1/workspaces/{id}/conflicts"] = func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") != "a1" || r.URL.RawQuery != "with=c1" {
				t.Errorf("asked for %s", r.URL)
			}
			w.Write([]byte(mustJSON(tt.answer)))
		}
		got := socket.run(t, "", "conflicts", "one", "left")
		status, _ := errors.AsType[cli.StatusError](got.failed)
		if got.out != tt.out || got.err != tt.err || status.StatusCode != tt.code {
			t.Errorf("%q, %q, %v, want %q, %q, code %d", got.out, got.err, got.failed, tt.out, tt.err, tt.code)
		}
	}
}
