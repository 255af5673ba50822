package workspace

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
)

// TestNamedBytes: the checkpoints of a subject that have a name keep no more than the subject may hold, whether they are copies
// that get one, or get it later. What is refused leaves nothing.
func TestNamedBytes(t *testing.T) {
	t.Parallel()
	testdisk.OnEach(t, testNamedBytes) // a copy on XFS shares its data with the workspace
}

func testNamedBytes(t *testing.T, base string) {
	w := onDisk(t, base)
	most, own := int64(10<<20), false
	w.m.config.MaxSize = func(dir string) (int64, bool) {
		if dir == "default" {
			return most, own
		}
		return 0, false
	}
	data := strings.Repeat("0123456789abcdef", 4<<20/16)
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), data)
	one := w.checkpoint(rec.ID, Note{Name: "one"})
	if d := w.checkpointOf(one.ID); d.Size.Bytes < 4<<20 || *d.Changed != 1 {
		t.Errorf("%+v", d)
	}
	full := func(what string, err error) {
		t.Helper()
		refused(t, what, err, "the checkpoints with names of the subject keep 4.", "10.0 MiB", "by the setting SUBJECT_MAX_SIZE",
			"docker repos checkpoints ls", "docker repos checkpoints rm", "docker repos subjects set --max-size")
	}
	name := func(id, name string) error { _, err := w.m.Draft(t.Context(), id, Note{Name: name}); return err }

	// A copy that grows between its first pass and its end.
	c, err := w.m.Draft(t.Context(), rec.ID, Note{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "more"), data)
	if _, err = w.m.CatchUp(t.Context(), c.ID); err == nil { // it shares what it has with the workspace
		_, err = w.m.Keep(t.Context(), c.ID)
	}
	full("a copy that has grown", err)
	full("a copy", name(rec.ID, "two"))
	if got := len(w.workspaces()); got != 2 || len(w.m.drafts) > 0 {
		t.Errorf("%d directories, drafts %v", got, w.m.drafts)
	}

	// One that is there.
	two := w.checkpoint(rec.ID, Note{})
	full("a checkpoint", name(two.ID, "two"))
	if _, err := w.m.Draft(t.Context(), two.ID, Note{Message: "x"}); err != nil {
		t.Errorf("a message alone: %v", err)
	}
	if err := name(one.ID, "other"); err != nil {
		t.Errorf("another name: %v", err)
	}

	// One that stands on others keeps these too.
	above, at := w.forked(two.ID, "f", "1")
	write(t, filepath.Join(at, "little"), "x")
	full("a copy of what began with one", name(above.ID, "above"))

	// Those of other subjects have room of their own.
	other, dir := w.open("o", "1", "subject", "other")
	write(t, filepath.Join(dir, "mine"), data)
	w.checkpoint(other.ID, Note{Name: "one"})

	most, own = 13<<20, true
	w.checkpoint(above.ID, Note{Name: "above"})
	if err := name(two.ID, "two"); err != nil { // what is kept already needs no more
		t.Error(err)
	}
	w.restart()
	w.m.config.MaxSize = func(string) (int64, bool) { return most, own }
	rec, dir = w.open("w", "1")
	write(t, filepath.Join(dir, "mine"), data)
	w.release("w", "1") // at once, so that it may not be measured yet
	reaped(t, w)
	refused(t, "one that just ended", name(rec.ID, "last"), "12.", "of 13.0 MiB", "its own limit")
	if err := w.m.RemoveCheckpoint(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	if err := name(rec.ID, "last"); err != nil {
		t.Error(err)
	}
}
