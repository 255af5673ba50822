package driver

import (
	"strings"
	"testing"
)

// TestPodmanPrivate checks that Mounts of Podman on a private volume are refused, because Podman sends
// the same ID for all containers. With the setting, they share a workspace.
func TestPodmanPrivate(t *testing.T) {
	w := newWorld(t)
	w.create("v")
	_, err := w.Mount(t.Context(), "v", podmanID)
	wantErr(t, "a private volume", err, `volume "v"`, "mode=shared", "mode=keep", "ALLOW_SHARED_PRIVATE=true")
	if got := w.core.Workspaces.Leases("v"); len(got) > 0 {
		t.Errorf("leases: %v, want none", got)
	}
	if _, said := w.status("v")["runtime"]; said {
		t.Error("Status has a runtime, but Podman has no mount")
	}

	docker := strings.Repeat("2f73349c", 8) // has the same form; docker cp sends the container's ID again
	w.mountOK("v", docker)
	w.mountOK("v", docker)

	w.config.SharePrivate = true
	one := w.mountOK("v", podmanID)
	if two := w.mountOK("v", podmanID); two != one {
		t.Errorf("Podman's second mount is at %s, the first at %s", two, one)
	}
	if got, _ := w.status("v")["runtime"].(string); !strings.Contains(got, "share one workspace") {
		t.Errorf("Status has the runtime %q", got)
	}
	for range 2 {
		w.unmountOK("v", docker)
		w.unmountOK("v", podmanID)
	}
	w.removeOK("v")
}

// TestPodmanShared checks that volumes with mode=shared or keep need no setting.
func TestPodmanShared(t *testing.T) {
	w := newWorld(t)
	for _, mode := range []string{"shared", "keep"} {
		w.create(mode, "mode", mode)
		w.mountOK(mode, podmanID)
		if got, _ := w.status(mode)["runtime"].(string); !strings.Contains(got, "Podman") {
			t.Errorf("%s: Status has the runtime %q", mode, got)
		}
		w.unmountOK(mode, podmanID)
		w.removeOK(mode)
	}
}
