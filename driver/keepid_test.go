package driver

import (
	"errors"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
)

// TestUncountedUnmount checks that the first Unmount of a lease that the engine did not count releases the lease, and
// still returns an error.
func TestUncountedUnmount(t *testing.T) {
	w := newWorld(t)
	w.core.Doubt = true
	w.restart()
	started := func() {
		leases, _ := w.core.Workspaces.InheritLeases()
		w.EngineStarted(leases)
	}
	w.create("v")
	w.mountOK("v", "1")
	w.mountOK("v", "2")
	started()
	w.mountOK("v", "3")
	w.unmountOK("v", "3")
	if err := w.Unmount(t.Context(), "v", "1"); !errors.Is(err, errKeepID) {
		t.Errorf("Unmount: %v", err)
	}
	if list := w.core.Workspaces.Leases("v"); len(list) != 1 || !slices.Equal(list[0].Leases, meta.Leases{"2"}) {
		t.Errorf("leases %v, want only that of ID 2", list)
	}
	w.mountOK("v", "1")
	w.unmountOK("v", "1")
	started()
	w.unmountOK("v", "1") // ID 1 had no lease at that start
	if err := w.Unmount(t.Context(), "v", "2"); !errors.Is(err, errKeepID) {
		t.Errorf("Unmount: %v", err)
	}
	w.removeOK("v")
}
