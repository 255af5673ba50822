package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestForeignOwner: a file that another uid than the volume's wrote is found when the upper is
// measured, and nothing else is taken for one.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now()
	foreign := func(id string) *uint32 {
		now = now.Add(time.Minute)
		w.meter(now)
		rec, _ := w.m.Workspace(id)
		return rec.Foreign
	}
	rec, dir := w.open("v", "1", "uid", "1000", "gid", "1001", "warm", "node_modules")
	own := filepath.Join(dir, "own")
	write(t, own, "x")
	if err := os.Chown(own, 1000, 1001); err != nil {
		t.Fatal(err)
	}
	// The engine makes directories as root, a removed file is a device of root, and a changed mode
	// keeps the owner of the tree.
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "made"), 0o755), os.Remove(filepath.Join(dir, "README.md")), os.Chmod(filepath.Join(dir, "src"), 0o700),
		os.MkdirAll(filepath.Join(dir, "node_modules"), 0o755), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "node_modules/x"), "x")
	if got := foreign(rec.ID); got != nil {
		t.Errorf("found %d", *got)
	}
	write(t, filepath.Join(dir, "made/file"), "x")
	w.m.meter.upperSoon(w.m.records.all[rec.ID])
	if got := foreign(rec.ID); got == nil || *got != 0 {
		t.Errorf("got %v, want root", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "made")); err != nil {
		t.Fatal(err)
	}
	w.m.meter.upperSoon(w.m.records.all[rec.ID])
	if got := foreign(rec.ID); got != nil {
		t.Errorf("found %d after the file was removed", *got)
	}
	kept, dir := w.open("kept", "1", "uid", "1000", "gid", "1001", "warm", "node_modules", "mode", "keep")
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "node_modules/x"), "x")
	w.m.meter.upperSoon(w.m.records.all[kept.ID])
	if got := foreign(kept.ID); got == nil || *got != 0 {
		t.Errorf("in a warm directory that is kept: got %v, want root", got)
	}
}
