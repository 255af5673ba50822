package verbs_test

import (
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/verbs"
)

// TestStatusLimit: the limit in Status is that of the workspace that the volume keeps, also while it has no lease, and else that
// of the next workspace.
func TestStatusLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("kept", "mode", "keep")
	w.acquire("kept", 0)
	w.create("private")
	w.acquire("private", 0)
	w.Limits = verbs.Limits{Default: disk.Size{Bytes: 1 << 30, Inodes: 1000}}
	w.restart()
	for name, want := range map[string]disk.Size{"kept": {}, "private": w.Limits.Default} {
		v, err := w.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if b, n := v.State.Status["limit_bytes"], v.State.Status["limit_inodes"]; b != want.Bytes || n != want.Inodes {
			t.Errorf("%s: limits %v and %v, want %+v", name, b, n, want)
		}
	}
}
