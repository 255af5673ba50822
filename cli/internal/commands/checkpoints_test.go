package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// TestCheckpoints: the list has what made a checkpoint and its name, and one with a name does not expire.
func TestCheckpoints(t *testing.T) {
	ended := time.Now().Add(-time.Hour)
	named := api.Checkpoint{
		ID: "d1", Volume: "src", Subject: "ci", Repo: "https://h/x", EndedAt: ended, Made: "user", InUse: true, From: []string{"d2", "d3"},
		Note: api.Note{Name: "step-1", Message: "two\nlines"},
	}
	p := fake{
		"GET /v1/checkpoints": map[string]any{"checkpoints": []api.Checkpoint{
			named, {ID: "d2", Volume: "src", Subject: "ci", Repo: "https://h/x", EndedAt: ended, ExpiresAt: time.Now().Add(2*time.Hour + time.Minute), Made: "end"},
		}},
		"GET /v1/checkpoints/d1": named,
	}
	want := `CHECKPOINT   NAME      MADE      VOLUME    CHANGED    SIZE        ENDED               EXPIRES
d1           step-1    user      src       counting   measuring   About an hour ago   never
d2                     end       src       counting   measuring   About an hour ago   in 2 hours
`
	if got := p.run(t, "", "checkpoints", "ls"); got.failed != nil || got.out != want {
		t.Errorf("%v, got\n%s\nwant\n%s", got.failed, got.out, want)
	}
	for args, want := range map[string]string{
		"checkpoints ls --format {{.Subject}}|{{.Repo}}|{{.Message}}|{{.From}}|{{.InUse}}": "ci|https://h/x|two\nlines|d2, d3|true\nci|https://h/x|||false\n",
		"checkpoints ls -q": "d1\nd2\n",
		"checkpoints show --format {{.Made}}:{{.Name}}:{{.InUse}} d1": "user:step-1:true\n",
	} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed != nil || got.out != want {
			t.Errorf("%s: got %q and %v, want %q", args, got.out, got.failed, want)
		}
	}
	got := p.run(t, "", "checkpoints", "show", "d1")
	for _, want := range []string{
		"Name:          step-1\n", `Message:       two\u000alines` + "\n", "Made:          user\n", "From:          d2, d3\n", "In use:        yes: workspaces or other checkpoints stand on it\n", "Expires:       never\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "Ref:") {
		t.Errorf("a line without a value in\n%s", got.out)
	}
}
