package workspace

import (
	"errors"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/project"
	"github.com/helmdeck/repos/internal/meta"
)

// TestNoProjects: where the filesystem has no project quotas, a limit is an error that leaves nothing. What needs no limit
// works, also of a workspace that has a project. The tests with quotas are in tests/quota.
func TestNoProjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request("v", "1")
	r.Limit = disk.Size{Bytes: 50 << 20}
	none := (*project.UnsupportedError)(nil)
	if _, err := w.m.Open(t.Context(), r); !errors.As(err, &none) {
		t.Errorf("Open with a limit: %v", err)
	}
	if left := w.workspaces(); len(left)+len(w.m.Workspaces()) > 0 {
		t.Errorf("it left %q", left)
	}
	r.Limit = disk.Size{}
	rec, err := w.m.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Use(rec); err == nil {
		t.Error("it has a use without a limit")
	}
	ws := w.m.records.leased(r.Lease)
	if _, err := w.m.records.change(t.Context(), ws, func(rec *meta.Workspace) error { rec.Project = 7; return nil }, nil); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.release("v", "1")
}
