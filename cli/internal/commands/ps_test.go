package commands

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// TestPs checks the list of what runs and of what is being done.
func TestPs(t *testing.T) {
	at := time.Now().Add(-5 * time.Minute)
	measured := time.Now()
	commit := strings.Repeat("ab12", 10)
	p := fake{
		"GET /v1/leases": map[string]any{"leases": []api.Lease{{ID: "web/h", Volume: "web", Holder: "h", Workspace: "w1"}}},
		"GET /v1/workspaces": map[string]any{"workspaces": []api.Workspace{
			{ID: "w2", Volume: "kept", Repo: "https://h/x", MountedAt: at.Add(-time.Hour), Phase: "mounted"}, // nobody has it
			{ID: "w1", Volume: "web", Repo: "https://h/x", Commit: commit, Leases: []string{"h"}, MountedAt: at, Size: api.Size{Bytes: 3 << 20}, MeasuredAt: &measured},
			{ID: "w3", Volume: "new\x1b", Repo: "https://h/x", Commit: commit, Leases: []string{"i", "j"}, MountedAt: at.Add(time.Minute)},
		}},
		"GET /v1/work": map[string]any{"work": []api.Work{
			{ID: "1", Repo: "https://h/y", URL: "https://h/y", State: "cloning", Since: at, For: `a mount of volume "y"`, Progress: "receiving objects 43% (1.20 GiB)", Objects: 430, Total: 1000},
			{ID: "2", Repo: "https://h/z", URL: "https://h/z", State: "checking out", Since: at, Queued: true},
		}},
	}
	got := p.run(t, "", "ps")
	want := `WORKSPACE   CONTAINER   VOLUME      REPOSITORY    COMMIT         SINCE           WROTE       STATUS
w1                      web         https://h/x   ab12ab12ab12   5 minutes ago   3MiB        running
w3                      new\u001b   https://h/x   ab12ab12ab12   4 minutes ago   measuring   running, used 2 times
                                    https://h/y                  5 minutes ago               cloning: receiving objects 43% (1.20 GiB), for a mount of volume "y"
                                    https://h/z                  5 minutes ago               checking out: waiting for its turn behind other work
`
	if got.failed != nil || got.out != want {
		t.Errorf("got %v and\n%s, want\n%s", got.failed, got.out, want)
	}
	for args, want := range map[string]string{
		"ps -q": "w1\nw3\n",
		"ps --format {{.Status}}|{{.Objects}}/{{.Total}}": "running|0/0\nrunning, used 2 times|0/0\ncloning: receiving objects 43% (1.20 GiB)|430/1000\n" +
			"checking out: waiting for its turn behind other work|0/0\n",
	} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed != nil || got.out != want {
			t.Errorf("%s: got %v and\n%q, want\n%q", args, got.failed, got.out, want)
		}
	}
}

// TestPsWatch checks that --watch lists again until it can't.
func TestPsWatch(t *testing.T) {
	asked := 0
	p := fake{
		"GET /v1/leases": func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked > 2 {
				refuse(http.StatusServiceUnavailable, api.ErrorAnswer{Error: "it stops"})(w, r)
				return
			}
			w.Write([]byte(`{"leases":[]}`))
		},
		"GET /v1/workspaces": map[string]any{"workspaces": []api.Workspace{}},
		"GET /v1/work":       map[string]any{"work": []api.Work{{ID: "1", URL: "https://h/y", State: "cloning", Since: time.Now()}}},
	}
	got := p.run(t, "", "ps", "--watch", "--format", "{{.Repo}} {{.Status}}")
	if got.failed == nil || got.failed.Error() != "it stops" || got.out != "https://h/y cloning\nhttps://h/y cloning\n" {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
}
