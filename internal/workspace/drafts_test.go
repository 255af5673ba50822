package workspace

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

// TestCheckpointHostile: a container that swaps directories for links while it is copied gets a checkpoint of its own files.
func TestCheckpointHostile(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1")
	outside := testdir.New(t, "outside")
	write(t, filepath.Join(outside, "secret"), "secret")
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		d, l := filepath.Join(dir, "d"), filepath.Join(dir, "l")
		os.Mkdir(d, 0o755)
		os.WriteFile(filepath.Join(d, "secret"), []byte("mine"), 0o644)
		os.Symlink(outside, l)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
			}
		}
	})
	for range 20 {
		kept := w.checkpoint(rec.ID, Note{})
		for _, name := range []string{"d", "l"} {
			path := filepath.Join(w.m.mounter.Upper(kept), name)
			if info, err := os.Lstat(path); err == nil && info.IsDir() && content(t, filepath.Join(path, "secret")) == "secret" {
				t.Fatal("the checkpoint has a file from outside")
			}
		}
	}
	close(stop)
	swapper.Wait()
}

// parked returns the record of a parked workspace with a file.
func (w *world) parked(name string) meta.Workspace {
	w.t.Helper()
	rec, dir := w.open(name, "1", "mode", "keep")
	write(w.t, filepath.Join(dir, "mine"), "x")
	w.release(name, "1")
	published(w.t, w, rec)
	if err := w.m.ParkUnused(w.t.Context(), rec.Clone); err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// TestCheckpointGivesWay: a Mount takes a parked workspace away from a draft that waits for its next call.
func TestCheckpointGivesWay(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec := w.parked("v")
	c, err := w.m.Draft(t.Context(), rec.ID, Note{})
	if err != nil {
		t.Fatal(err)
	}
	w.join("v", "2")
	_, err = w.m.CatchUp(t.Context(), c.ID)
	refused(t, "CatchUp", err, "there is no draft")
	if got := len(w.workspaces()); got != 1 {
		t.Errorf("%d directories", got)
	}
}

// TestCheckpointParked: a workspace about which the kernel was asked whether it is in use can be copied, and it can be asked
// about the copy.
func TestCheckpointParked(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec := w.parked("v")
	kept := w.checkpoint(rec.ID, Note{})
	w.take(kept.ID).Release()
	_, dir := w.forked(kept.ID, "f", "1")
	wantFile(t, dir, "mine", "x")
}

// TestFromLocksUnchanged: the removal of locks is no change of a workspace.
func TestFromLocksUnchanged(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	write(t, filepath.Join(dir, ".git/index.lock"), "")
	w.end("v", "1")
	w.checkpointOf(rec.ID)
	w.forked(rec.ID, "f", "1")
	w.end("f", "1")
	if got := w.m.Checkpoints(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
