package workspace

import (
	"os"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/credential/handout"
)

// TestReleaseWithoutSocket: a lease of an earlier process ends although the workspace's credential
// helper can't be served any more, and no new lease begins without it.
func TestReleaseWithoutSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1", "mode", "shared", "auth", "container")
	w.join("v", "2")
	w.restart()
	w.m.records.config.Handout = handout.New(handout.Config{Log: w.m.config.Log, Now: time.Now})
	if err := os.RemoveAll(w.m.mounter.Helper(rec)); err != nil {
		t.Fatal(err)
	}
	w.release("v", "1")
	if got, _ := w.m.Workspace(rec.ID); len(got.Leases) != 1 || !got.Leases.Has("2") {
		t.Errorf("leases %v", got.Leases)
	}
	_, _, err := w.m.Join(t.Context(), Lease{"v", "3"})
	refused(t, "Join", err, "helper")
	w.release("v", "2")
}
