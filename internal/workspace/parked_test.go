package workspace

import (
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

// A Join that mounted a parked workspace and could not commit that leaves it parked and
// mounted. The next Join or start makes its phase mounted.
func TestParkedAndMounted(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		made, dir := w.open("v", "1", "mode", "keep")
		write(t, filepath.Join(dir, "mine"), "x")
		w.release("v", "1")
		w.close()
		testdir.Unmount(t, w.root)
		w.restart()
		phase := func(want meta.Phase) {
			t.Helper()
			if rec, ok := w.m.Kept("v"); !ok || rec.ID != made.ID || rec.Phase != want || w.records()[made.ID].Phase != want {
				t.Fatalf("kept: %+v, %v, want phase %s", rec, ok, want)
			}
		}
		phase(meta.Parked)
		mend := w.breakDB()
		if _, ok, err := w.m.Join(t.Context(), Lease{"v", "2"}); ok || err == nil {
			t.Fatalf("Join without a database: %v, %v", ok, err)
		}
		mend()
		if rec, _ := w.m.Kept("v"); rec.Phase != meta.Parked || w.m.MountedAt(rec) == "" {
			t.Fatalf("phase %s, mounted at %q", rec.Phase, w.m.MountedAt(rec))
		}
		if restart {
			w.restart()
			phase(meta.Mounted)
		}
		rec, ok, err := w.m.Join(t.Context(), Lease{"v", "2"})
		if err != nil || !ok {
			t.Fatalf("Join: %v, %v", ok, err)
		}
		w.wantMounted(rec, "x")
		w.release("v", "2")
		phase(meta.Mounted)
	}
}
