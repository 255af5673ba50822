package csi

import (
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// TestLimit: with a limit, kubelet learns how much is left of it.
func TestLimit(t *testing.T) {
	for _, tt := range []struct{ used, most, total, available int64 }{
		{10, 0, 0, 0},
		{10, 100, 100, 90},
		{100, 100, 100, 0},
		{104, 100, 100, 0}, // a limit that was lowered by a restore
	} {
		var u spec.VolumeUsage
		limit(&u, tt.used, tt.most)
		if u.Used != tt.used || u.Total != tt.total || u.Available != tt.available {
			t.Errorf("%+v: got %v", tt, &u)
		}
	}
}
