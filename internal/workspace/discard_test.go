package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/mounter"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// newDiscardWorld returns a world whose workspaces leave discards.
func newDiscardWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.close()
	w.ttl = time.Hour
	w.start()
	return w
}

// discard opens a workspace, writes a file, and waits for its discard.
func (w *world) discard(name string) Discard {
	w.t.Helper()
	rec, dir := w.open(name, "d")
	write(w.t, filepath.Join(dir, "mine"), "x")
	w.release(name, "d")
	reaped(w.t, w)
	return w.discardOf(rec.ID)
}

// discardOf waits until a discard is counted.
func (w *world) discardOf(id string) (d Discard) {
	w.t.Helper()
	testdir.Eventually(w.t, "the discard to be counted", func() bool {
		list := w.m.Discards()
		i := slices.IndexFunc(list, func(d Discard) bool { return d.ID == id && d.Changed != nil && !d.Size.At.IsZero() })
		if i >= 0 {
			d = list[i]
		}
		return i >= 0
	})
	return d
}

// restore restores a discard into a new volume.
func (w *world) restore(id, name string) error {
	rec, err := w.m.Discarded(id)
	if err != nil {
		return err
	}
	o, err := volume.ParseRestored(map[string]string{"repo": rec.Options["repo"], "restore": id}, nil, rec.Options, volume.AllSchemes())
	if err != nil {
		w.t.Fatal(err)
	}
	return w.m.Restore(w.t.Context(), id, name, o, func(tx *meta.Tx) error {
		return tx.PutVolume(meta.Volume{Name: name, Options: o.Map()})
	})
}

// TestDiscardLasts: a discard and its layers survive restarts, another boot and a lost
// database, and the discard can be restored then.
func TestDiscardLasts(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	rec, dir := w.open("v", "1", "ref", "main")
	write(t, filepath.Join(dir, "mine"), "x")
	write(t, filepath.Join(dir, "README.md"), "changed")
	testgit.GitAny(t, dir, "commit", "-qam", "mine")
	head := testgit.GitAny(t, dir, "rev-parse", "HEAD")
	if err := os.RemoveAll(filepath.Join(dir, "src")); err != nil {
		t.Fatal(err)
	}
	w.release("v", "1")
	reaped(t, w)
	before := w.discardOf(rec.ID)
	if before.Volume != "v" || before.Subject != "default" || before.Repo != w.server.URL("r") || before.Commit != rec.Commit ||
		before.ExpiresAt.Sub(before.EndedAt) != time.Hour || before.Size.Bytes == 0 {
		t.Errorf("%+v", before)
	}
	if _, err := os.Lstat(filepath.Join(w.m.mounter.Dir(rec), "work/work/incompat/volatile")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of a volatile mount: %v", err)
	}
	w.push() // now only the discard needs the layers
	w.open("v", "2", "ref", "main", "refresh", "always")
	for _, again := range []func(){
		func() { w.restart() },
		func() { w.close(); testdir.Unmount(t, w.root); w.boot = "another"; w.restart() },
		func() { w.rebuild() },
	} {
		again()
		if got := w.discardOf(rec.ID); got.Volume != "v" || *got.Changed != *before.Changed || got.EndedAt.Unix() != before.EndedAt.Unix() {
			t.Errorf("%+v, want %+v", got, before)
		}
	}
	if err := w.restore(rec.ID, "again"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	restored, dir := w.join("again", "1")
	if restored.ID != rec.ID || !slices.Equal(restored.Chain, rec.Chain) || restored.GitLayer != rec.GitLayer {
		t.Errorf("restored %+v, want the layers of %+v", restored, rec)
	}
	if content(t, filepath.Join(dir, "mine")) != "x" || content(t, filepath.Join(dir, "README.md")) != "changed" || testgit.GitAny(t, dir, "rev-parse", "HEAD") != head {
		t.Errorf("status %s", testgit.GitAny(t, dir, "status"))
	}
	if _, err := os.Lstat(filepath.Join(dir, "src")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was removed: %v", err)
	}
	testgit.GitAny(t, dir, "fsck", "--strict")
}

// TestNoDiscard: a workspace of another boot leaves no discard, because it was never
// synced. Without a DiscardTTL there are no discards.
func TestNoDiscard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		do    func(w *world)
		lasts bool
	}{
		{"the same boot", func(w *world) {}, true},
		{"another boot", func(w *world) { w.boot = "another" }, false},
		{"not wanted", func(w *world) { w.ttl = 0 }, false},
	} {
		w := newDiscardWorld(t)
		rec, dir := w.open("v", "1")
		write(t, filepath.Join(dir, "mine"), "x")
		w.close()
		testdir.Unmount(t, w.root)
		tt.do(w)
		w.restart()
		reaped(t, w)
		if _, err := w.m.Discarded(rec.ID); (err == nil) != tt.lasts {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := len(w.workspaces()); (got > 0) != tt.lasts {
			t.Errorf("%s: %d directories", tt.name, got)
		}
	}
}

// TestEvictDiscard: a discard is evicted once. Others are errors.
func TestEvictDiscard(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	live, _ := w.open("v", "1")
	d := w.discard("v")
	var missing *NoDiscardError
	for _, id := range []string{live.ID, "0123456789abcdef", ""} {
		if err := w.m.EvictDiscard(id); !errors.As(err, &missing) || missing.ID != id {
			t.Errorf("%q: %v, want that there is none", id, err)
		}
	}
	before := w.trash.Stats().Size
	if err := w.m.EvictDiscard(d.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.trash.Stats().Size.Sub(before); got != d.Size.Size || got.Bytes == 0 {
		t.Errorf("%+v more in the trash, want the discard's %+v at once", got, d.Size.Size)
	}
	if err := w.m.EvictDiscard(d.ID); !errors.As(err, &missing) {
		t.Errorf("again: %v", err)
	}
	if got := w.m.Discards(); len(got) > 0 || len(w.workspaces()) != 1 {
		t.Errorf("left: %+v, %q", got, w.workspaces())
	}
	if _, ok := w.records()[d.ID]; ok {
		t.Error("its record is left")
	}
}

// TestTrashedLater: if the directory of an evicted discard can't be renamed to the trash,
// this is tried again.
func TestTrashedLater(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	d := w.discard("v")
	allow := testdir.Refuse(t, filepath.Join(w.root, "trash"))
	if err := w.m.EvictDiscard(d.ID); !errors.Is(err, unix.EXDEV) || len(w.workspaces()) != 1 {
		t.Fatalf("evicted: %v; left: %q", err, w.workspaces())
	}
	allow()
	testdir.Eventually(t, "it to be trashed", func() bool { return len(w.workspaces()) == 0 })
}

// TestSweepDiscards: the sweep removes the record of a discard without a directory, and
// repairs a wrong manifest.
func TestSweepDiscards(t *testing.T) {
	t.Parallel()
	w := newDiscardWorld(t)
	gone, stays := w.discard("v"), w.discard("v")
	rec, err := w.m.Discarded(stays.ID)
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(w.m.mounter.Dir(rec), mounter.ManifestName)
	lost := w.m.mounter.Dir(meta.Workspace{ID: gone.ID, Clone: rec.Clone})
	if err := errors.Join(os.RemoveAll(lost), os.WriteFile(manifest, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := w.m.Discards(); len(got) != 1 || got[0].ID != stays.ID {
		t.Errorf("%+v", got)
	}
	w.rebuild()
	w.discardOf(stays.ID)
}
