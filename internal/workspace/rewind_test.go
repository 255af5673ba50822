package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/admission"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestRewindKeepsTheIndex: what a volume had before it went back is a checkpoint also if only its index and a new directory
// differ, which are no changes for the end of a container.
func TestRewindKeepsTheIndex(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "mode", "keep")
	one := w.checkpoint(rec.ID, Note{})
	testgit.GitAny(t, dir, "rm", "--cached", "--quiet", "README.md")
	if err := os.Mkdir(filepath.Join(dir, "vacant"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := testgit.GitAny(t, dir, "status", "--porcelain")
	w.release("v", "1")
	published(t, w, rec)
	r, err := w.requestFrom(one.ID, "v", "", "mode", "keep")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Rewind(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	reaped(t, w)
	if d := w.checkpointOf(rec.ID); d.Made != meta.MadeByRewind {
		t.Errorf("%+v", d)
	}
	_, at := w.forked(rec.ID, "f", "1")
	if got := testgit.GitAny(t, at, "status", "--porcelain"); got != want || want == "" {
		t.Errorf("its status is %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(at, "vacant")); err != nil {
		t.Error(err)
	}
}

// TestRewindBudget: a workspace that comes in place of another one needs room for what its limit is higher, and for no more.
func TestRewindBudget(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	w.m.config.MaxSize = func(string) (int64, bool) { return 100 << 20, false }
	rec, dir := w.open("v", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "one")
	one := w.checkpoint(rec.ID, Note{})
	w.limit(rec.ID, disk.Size{Bytes: 10 << 20})
	other, _ := w.open("s", "1", "mode", "shared")
	w.limit(other.ID, disk.Size{Bytes: 40 << 20})
	w.release("v", "1")
	published(t, w, rec)
	r, err := w.requestFrom(one.ID, "v", "", "mode", "keep")
	if err != nil {
		t.Fatal(err)
	}
	rewind := func(mib int64) (full *admission.BudgetError) {
		t.Helper()
		r.Limit.Bytes = mib << 20
		_, err := w.m.Rewind(t.Context(), r)
		if err == nil { // it has no project quotas
			t.Errorf("went back to a workspace of %d MiB", mib)
		}
		errors.As(err, &full)
		return full
	}
	refused(t, "61 MiB", rewind(61), "may hold 61m", "may hold 40m, those of the volumes \"s\" (40m)")
	if full := rewind(60); full != nil {
		t.Errorf("60 MiB: %v", full)
	}
	done, err := w.m.admission.Reserve("default", "v", 60<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admit("t", "1", true, 1); err == nil {
		t.Error("the higher limit does not count while the volume goes back")
	}
	done()
	admitted, err := w.admit("v", "2", false, 61) // it gets the workspace that the volume keeps
	if err != nil {
		t.Fatal(err)
	}
	admitted()
	w.limit(other.ID, disk.Size{Bytes: 95 << 20})
	if full := rewind(10); full != nil {
		t.Errorf("no more than before: %v", full)
	}
}
