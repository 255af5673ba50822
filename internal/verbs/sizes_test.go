package verbs

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
)

// TestForeignWarning: the warning about a warm directory names the path and both users.
func TestForeignWarning(t *testing.T) {
	t.Parallel()
	got := foreignWarning("web/node_modules", 1000, 77)
	for _, part := range []string{`warm directory "web/node_modules"`, "belong to uid 77,", "the volume has uid=1000"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
}

// TestOwnerWarning: the warning about dubious ownership names both users, and the options that help.
func TestOwnerWarning(t *testing.T) {
	t.Parallel()
	if got := ownerWarning(meta.Workspace{UID: 1000}); got != "" {
		t.Errorf("without such files: %q", got)
	}
	root := uint32(0)
	got := ownerWarning(meta.Workspace{UID: 1000, Foreign: &root})
	for _, part := range []string{"belong to uid 0,", "the volume has uid=1000", `"dubious ownership"`, "run the container as uid 1000", "options uid=0 and gid"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
}
