package driver

import (
	"errors"
	"testing"
)

// TestUncountedUnmount: the first Unmount of a lease that an engine has not counted is done, and answered with an error.
func TestUncountedUnmount(t *testing.T) {
	w := newWorld(t)
	w.doubt = true
	w.restart()
	w.create("v")
	w.mountOK("v", "1")
	w.mountOK("v", "2")
	w.Workspaces.EngineStarted()
	w.mountOK("v", "3")
	w.unmountOK("v", "3")
	if err := w.Unmount(t.Context(), "v", "1"); !errors.Is(err, errKeepID) {
		t.Errorf("Unmount: %v", err)
	}
	if list := w.Workspaces.Leases("v"); len(list) != 1 || list[0].Leases["2"] != 1 {
		t.Errorf("leases %v, want 2 alone", list)
	}
	w.mountOK("v", "1")
	w.unmountOK("v", "1")
	w.Workspaces.EngineStarted()
	w.unmountOK("v", "1") // of before that
	if err := w.Unmount(t.Context(), "v", "2"); !errors.Is(err, errKeepID) {
		t.Errorf("Unmount: %v", err)
	}
	w.removeOK("v")
}
