package clone

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
)

// A clone that has never used cold=shallow needs no second lock file: a disk that has no
// room for it lets the clone be swept and evicted.
func TestLockFilesOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	locks := filepath.Join(w.Root, "locks")
	if err := unix.Mount("none", locks, "tmpfs", 0, "nr_inodes=2"); err != nil { // the directory and a file
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(locks, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.restart("boot 1")
	c := w.clone(s)
	w.prepare(s).Release() // sweeps
	testdir.Eventually(t, "the end of other work", func() bool { info, _ := c.Info(); return info.Busy == "" })
	if err := w.m.EvictClone(t.Context(), c.Key, work.StopNothing); err != nil {
		t.Error(err)
	}
	if got := testdir.Names(t, locks); len(got) != 1 {
		t.Errorf("lock files: %q", got)
	}
}
