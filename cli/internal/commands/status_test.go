package commands

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// TestStatusWorktrees: each worktree has one line, whatever its name is.
func TestStatusWorktrees(t *testing.T) {
	two := int64(2)
	var out strings.Builder
	err := printStatus(&out, api.Workspace{}, api.WorkspaceStatus{Worktrees: []api.Worktree{
		{Name: "a", Branch: "topic", Head: "1234", Ahead: &two}, {Name: "b\n\x1b[1m", Head: "5678"},
	}, WorktreesError: "more than 100"})
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "Worktree") {
			lines++
		}
	}
	for _, want := range []string{
		"a: 2 commits that the remote lacks, refs/heads/topic", "an unknown number of commits that the remote lacks, detached at 5678", "Worktrees:  more than 100",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if lines != 3 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines in\n%q", lines, out.String())
	}
}
