package driver

import (
	"fmt"
	"testing"
)

// TestSubjectMaxLeases checks that the error names the setting and the volumes that have the leases.
func TestSubjectMaxLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.core.MaxLeases = 2
	w.restart()
	w.create("v")
	w.create("w", "mode", "shared")
	w.create("other", "subject", "other")
	w.mountOK("v", "1")
	w.mountOK("w", "1")
	w.mountOK("w", "1") // docker cp
	for _, name := range []string{"v", "w"} {
		_, err := w.Mount(t.Context(), name, "2")
		wantErr(t, "mount", err, fmt.Sprintf("volume %q", name), "2 mounts", "SUBJECT_MAX_LEASES allows 2", `"v" (1), "w" (1)`)
	}
	w.mountOK("other", "1")
	w.unmountOK("v", "1")
	w.mountOK("w", "2")
}
