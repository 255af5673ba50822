package admission

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

const mib = 1 << 20

// checkpoint returns a record of the subject s.
func checkpoint(id, name string, size int64, from ...string) meta.Workspace {
	return meta.Workspace{
		ID: id, Clone: "s/1", Phase: meta.Checkpoint, Name: name, From: from, Size: meta.Measured{Size: disk.Size{Bytes: size * mib}},
	}
}

// TestLeft: what a checkpoint that is going to have a name may have is what the others of its subject leave, by the subject's
// limit, or else by half of what all subjects have.
func TestLeft(t *testing.T) {
	t.Parallel()
	other := checkpoint("o", "n", 1000)
	other.Clone = "other/1"
	draft := checkpoint("d", "draft", 2)
	draft.Phase = meta.Making
	merged := checkpoint("g", "", 1)
	merged.Merged = []string{"h", "gone"}
	recs := []meta.Workspace{
		checkpoint("a", "n", 4), checkpoint("b", "", 8), checkpoint("c", "m", 1, "b"), checkpoint("e", "", 16, "c", "b"), other, draft,
		merged, checkpoint("h", "", 32),
	}
	for _, tt := range []struct {
		name        string
		most, total int64 // MiB
		own         bool
		rec         meta.Workspace
		left        int64 // MiB; 0 for any
		limit       string
	}{
		{"no limit", 0, 0, false, checkpoint("x", "", 0), 0, ""},
		{"the setting", 20, 1000, false, checkpoint("x", "", 0), 5, "SUBJECT_MAX_SIZE"},
		{"its own", 20, 10, true, checkpoint("x", "", 0), 5, "its own limit"},
		{"half of all", 0, 60, false, checkpoint("x", "", 0), 15, "half of the setting MAX_SIZE"},
		{"its own is none", 0, 60, true, checkpoint("x", "", 0), 15, "half of the setting MAX_SIZE"},
		{"on one that is kept", 20, 0, false, checkpoint("x", "", 0, "b"), 5, "SUBJECT_MAX_SIZE"},
		{"on one that is not", 20, 0, false, checkpoint("x", "", 0, "e", "c", "b"), -11, "SUBJECT_MAX_SIZE"},
		{"a merged one", 100, 0, false, merged, 53, "SUBJECT_MAX_SIZE"},
		{"on a merged one", 100, 0, false, checkpoint("x", "", 0, "g"), 52, "SUBJECT_MAX_SIZE"},
		{"below one that has a name", 1, 0, false, recs[1], 0, ""},
		{"a draft", 20, 0, false, draft, 7, "SUBJECT_MAX_SIZE"},
		{"another subject", 20, 0, false, meta.Workspace{ID: "x", Clone: "third/1"}, 20, "SUBJECT_MAX_SIZE"},
	} {
		d := New(Config{
			Each: func(f func(meta.Workspace)) {
				for _, rec := range recs {
					f(rec)
				}
			},
			MaxSize: func(string) (int64, bool) { return tt.most * mib, tt.own },
			Total:   tt.total * mib,
		})
		want := tt.left * mib
		if tt.left == 0 {
			want = unbounded
		}
		left, full := d.Left(tt.rec)
		if left != want || (full != nil) != (tt.limit != "") || full != nil && !strings.Contains(full.Error(), tt.limit) {
			t.Errorf("%s: got %d, %v; want %d, %q", tt.name, left, full, want, tt.limit)
		}
		called := false
		call := func() error { called = true; return errors.New("its own") }
		rec := tt.rec
		rec.Size.Bytes = max(want, 0)
		if err := d.Name(t.Context(), rec, call); want >= 0 && (!called || err == nil || err.Error() != "its own") {
			t.Errorf("%s: as much as is left: %v", tt.name, err)
		}
		called, rec.Size.Bytes = false, max(want, 0)+1
		if _, ok := errors.AsType[*NamedError](d.Name(t.Context(), rec, call)); !ok || called {
			t.Errorf("%s: more than is left is allowed", tt.name)
		}
	}
}
