package verbs

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
)

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
