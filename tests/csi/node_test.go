package csi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/overlay"
)

// TestPublish checks an inline volume from its publication to its end.
func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.publish(aPod)
	if _, err := os.Stat(filepath.Join(target, "README.md")); err != nil {
		t.Error(err)
	}
	w.ok(os.WriteFile(filepath.Join(target, "mine"), nil, 0o644))
	w.publish(aPod)
	if _, err := os.Stat(filepath.Join(target, "mine")); err != nil {
		t.Errorf("after another NodePublishVolume: %v", err)
	}
	w.unpublish(aPod)
	w.unpublish(aPod)
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target after NodeUnpublishVolume: %v", err)
	}
	w.wantNothing()
}

// wantNothing checks that the driver has no volume, lease or mount.
func (w *world) wantNothing() {
	w.t.Helper()
	volumes, err := w.daemon.Admin.Volumes(w.t.Context(), api.Filter{})
	w.ok(err)
	leases, err := w.daemon.Admin.Leases(w.t.Context(), api.Filter{})
	w.ok(err)
	if len(volumes) > 0 || len(leases) > 0 {
		w.t.Errorf("left: volumes %+v, leases %+v", volumes, leases)
	}
	points, err := overlay.Mounts(filepath.Join(w.kubelet, "pods"))
	w.ok(err)
	if len(points) > 0 {
		w.t.Errorf("left: mounts %+v", points)
	}
}
