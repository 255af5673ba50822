package workspace

import (
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/overlay"
)

// A start removes the mount points that a process that died has left.
func TestTidyPoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1")
	if err := overlay.MakePoint(overlay.PointsDir(w.root), "left"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := entries(t, overlay.PointsDir(w.root)); !slices.Equal(got, []string{rec.ID}) {
		t.Errorf("mount points %q, want that of the workspace", got)
	}
	w.release("v", "1")
	if got := entries(t, overlay.PointsDir(w.root)); len(got) > 0 {
		t.Errorf("mount points %q, want none", got)
	}
}
