package removal

import (
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/tests/wait"
)

// TestFreshOfFrom: a clone goes with its checkpoints and with what stands on them, and a volume without its checkpoint says so.
func TestFreshOfFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "r")
	w.mount("v", "1", "x")
	w.unmount("v", "1")
	wait.For(t, "the checkpoint", func() error { return wait.Equal(len(w.Workspaces.Checkpoints()), 1) })
	w.create("again", "r", "from", w.Workspaces.Checkpoints()[0].ID, "mode", "keep")
	w.mount("again", "1", "y")
	w.unmount("again", "1")
	key := w.keys()[0]
	w.idle(key)
	_, err := w.Fresh(t.Context(), key, false)
	if got, want := kinds(t, err), []string{"checkpoint v forced", "workspace again forced"}; !slices.Equal(got, want) {
		t.Errorf("in the way %q, want %q", got, want)
	}
	wait.For(t, "the end of the publication of the kept workspace's cache", func() error {
		_, err = w.Fresh(t.Context(), key, true)
		return wait.Check(err == nil || !strings.Contains(err.Error(), "publishes its cache"), "%v", err)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Acquire(t.Context(), verbs.Lease{Volume: "again", ID: "1"}); err == nil || !strings.Contains(err.Error(), "remove the volume") {
		t.Errorf("mount of the volume: %v", err)
	}
}
