package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/admission"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// onDisk returns a world whose workspaces leave checkpoints, on a disk of its own.
func onDisk(t *testing.T, dir string) *world {
	t.Helper()
	w := newWorldIn(t, dir)
	w.close()
	w.ttl = time.Hour
	w.start()
	t.Cleanup(func() { // before the disk is ejected
		w.close()
		testdir.Unmount(t, w.root)
	})
	return w
}

// TestCheckpointFullDisk: on a full disk no step makes a checkpoint, or uses one, without an error, and none leaves
// anything. When the disk has room again, each works.
func TestCheckpointFullDisk(t *testing.T) {
	testdisk.OnEach(t, func(t *testing.T, base string) {
		w := onDisk(t, base)
		rec, dir := w.open("v", "1", "mode", "keep")
		write(t, filepath.Join(dir, "mine"), strings.Repeat("x", 4<<20))
		fill := filepath.Join(base, "fill")
		vacate := func() {
			if err := os.Remove(fill); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		// onFull calls a step on a full disk, which must fail and leave as many workspaces and checkpoints as before.
		onFull := func(what string, step func() error) {
			t.Helper()
			if err := testdisk.Fill(fill); err != nil {
				t.Fatal(err)
			}
			before, checkpoints := len(w.workspaces()), len(w.m.Checkpoints())
			err := step()
			vacate()
			if err == nil {
				t.Errorf("%s: no error on a full disk", what)
			} else if text := err.Error(); !strings.Contains(text, "no space left") && !strings.Contains(text, "has changed too much") && !strings.Contains(text, "make room") {
				t.Errorf("%s: %v", what, err)
			}
			t.Logf("%s: %v", what, err)
			wait.For(t, what+" to leave nothing", func() error { return wait.Equal(len(w.workspaces()), before) })
			if got := len(w.m.Checkpoints()); got != checkpoints {
				t.Errorf("%s: %d checkpoints, want %d", what, got, checkpoints)
			}
		}
		draft := func() string {
			t.Helper()
			c, err := w.m.Draft(t.Context(), rec.ID, Note{})
			if err != nil {
				t.Fatal(err)
			}
			return c.ID
		}
		onFull("Draft", func() error { _, err := w.m.Draft(t.Context(), rec.ID, Note{}); return err })

		id := draft()
		write(t, filepath.Join(dir, "more"), strings.Repeat("y", 4<<20))
		before := len(w.workspaces()) - 1
		if err := testdisk.Fill(fill); err != nil {
			t.Fatal(err)
		}
		_, err := w.m.CatchUp(t.Context(), id)
		vacate()
		if err == nil || len(w.workspaces()) != before {
			t.Errorf("CatchUp: %v, and %d directories", err, len(w.workspaces()))
		}
		t.Logf("CatchUp: %v", err)

		id = draft()
		if err := testdisk.Fill(fill); err != nil {
			t.Fatal(err)
		}
		_, err = w.m.Keep(t.Context(), id)
		vacate()
		if kept := len(w.m.Checkpoints()) == 1; kept != (err == nil) || len(w.workspaces()) != before+len(w.m.Checkpoints()) {
			t.Errorf("Keep: %v, and %+v, %d directories", err, w.m.Checkpoints(), len(w.workspaces()))
		}
		t.Logf("Keep: %v", err)

		one := w.checkpoint(rec.ID, Note{})
		onFull("fork", func() error { _, _, err := w.fork(one.ID, "f", "1", "mode", "keep"); return err })
		_, at := w.forked(one.ID, "f", "1", "mode", "keep")
		wantFile(t, at, "more", strings.Repeat("y", 4<<20))
		w.release("v", "1")
		published(t, w, rec)
		r, err := w.requestFrom(one.ID, "v", "", "mode", "keep")
		if err != nil {
			t.Fatal(err)
		}
		onFull("Rewind", func() error { _, err := w.m.Rewind(t.Context(), r); return err })
		joined, at := w.join("v", "2")
		if joined.ID != rec.ID {
			t.Errorf("joined %+v", joined)
		}
		wantFile(t, at, "more", strings.Repeat("y", 4<<20))
		w.release("v", "2")
		published(t, w, joined)
		if _, err := w.m.Rewind(t.Context(), r); err != nil {
			t.Error(err)
		}
	})
}

// TestHalfOfFree: a copy is given up when others have taken half of what was free, of bytes or of inodes.
func TestHalfOfFree(t *testing.T) {
	t.Parallel()
	base := testdisk.Small(t, func(dir string) error { return testdisk.Ext4(dir, 64<<20, "-N", "2048") })
	w := onDisk(t, base)
	room := func() func() error {
		t.Helper()
		room, err := admission.HalfOfFree(w.m.config.Root)
		if err == nil {
			err = room()
		}
		if err != nil {
			t.Fatal(err)
		}
		return room
	}
	bytes := room()
	fill := filepath.Join(base, "fill")
	if err := testdisk.Fill(fill); err != nil {
		t.Fatal(err)
	}
	refused(t, "bytes", bytes(), "less than half", "make room")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	inodes := room()
	free, err := disk.SpaceOf(base)
	if err != nil {
		t.Fatal(err)
	}
	for n := range free.Free.Inodes/2 + 10 {
		write(t, filepath.Join(base, fmt.Sprint("file-", n)), "")
	}
	refused(t, "inodes", inodes(), "less than half", "inodes")
}

// TestCheckpointFewInodes: a copy leaves others half of the inodes.
func TestCheckpointFewInodes(t *testing.T) {
	t.Parallel()
	base := testdisk.Small(t, func(dir string) error { return testdisk.Ext4(dir, 128<<20, "-N", "8192") })
	w := onDisk(t, base)
	rec, dir := w.open("v", "1")
	for n := range 5000 {
		write(t, filepath.Join(dir, fmt.Sprint("file-", n)), "")
	}
	_, err := w.m.Draft(t.Context(), rec.ID, Note{})
	refused(t, "Draft", err, "less than half")
	if got := len(w.workspaces()); got != 1 {
		t.Errorf("%d directories", got)
	}
}

// TestCheckpointsOfSubject: a subject has no more checkpoints that users made or named than the limit. Those that were made
// at the end of a workspace count if they have a name, and other subjects have limits of their own.
func TestCheckpointsOfSubject(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	w.m.admission.MaxCheckpoints = 2
	ended := []string{w.leave("a").ID, w.leave("b").ID, w.leave("c").ID}
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	name := func(id, name string) error { _, err := w.m.Draft(t.Context(), id, Note{Name: name}); return err }
	made := w.checkpoint(rec.ID, Note{})
	if err := name(ended[0], "one"); err != nil {
		t.Fatal(err)
	}
	_, err := w.m.Draft(t.Context(), rec.ID, Note{})
	refused(t, "another one", err, "has 2 checkpoints", "no more are possible", "remove some")
	refused(t, "another name", name(ended[1], "two"), "has 2 checkpoints", "remove some")
	for _, err := range []error{name(ended[0], "other"), name(made.ID, "named"), name(ended[1], "")} {
		if err != nil {
			t.Errorf("no more than before: %v", err)
		}
	}
	other, dir := w.open("o", "1", "subject", "other")
	write(t, filepath.Join(dir, "mine"), "x")
	w.checkpoint(other.ID, Note{})
	if err := w.m.RemoveCheckpoint(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if err := name(ended[2], "three"); err != nil {
		t.Error(err)
	}
	if got := len(w.workspaces()); got != 6 {
		t.Errorf("%d directories", got)
	}
}

// TestHundredForks: a hundred workspaces begin with one checkpoint at once, with little space, and are independent.
func TestHundredForks(t *testing.T) {
	t.Parallel()
	const forks, most = 100, 20 << 20
	base := testdisk.Small(t, func(dir string) error { return testdisk.Ext4(dir, 512<<20) })
	w := onDisk(t, base)
	rec, dir := w.open("v", "1", "ref", "main")
	write(t, filepath.Join(dir, "mine"), strings.Repeat("x", 1<<20))
	for n := range 1000 {
		write(t, filepath.Join(dir, fmt.Sprint("file-", n)), fmt.Sprint(n))
	}
	id := w.checkpoint(rec.ID, Note{}).ID
	var requests []Request
	for n := range forks {
		r, err := w.requestFrom(id, fmt.Sprint("f", n), "1")
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, r)
	}
	before, err := disk.SpaceOf(base)
	if err != nil {
		t.Fatal(err)
	}
	recs := make([]meta.Workspace, forks)
	began := time.Now()
	var all sync.WaitGroup
	for n, r := range requests {
		all.Go(func() {
			var err error
			if recs[n], err = w.m.Open(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	after, err := disk.SpaceOf(base)
	if err != nil {
		t.Fatal(err)
	}
	used := before.Free.Bytes - after.Free.Bytes
	t.Logf("%d forks in %v, with %d KiB and %d inodes", forks, took, used>>10, before.Free.Inodes-after.Free.Inodes)
	if used > most {
		t.Errorf("%d forks take %d KiB, want at most %d", forks, used>>10, most>>10)
	}
	if t.Failed() {
		return
	}
	want := testgit.GitAny(t, dir, "status", "--porcelain")
	for n, rec := range recs {
		at := w.m.Mountpoint(rec)
		if n%10 == 0 {
			if got := testgit.GitAny(t, at, "status", "--porcelain"); got != want {
				t.Errorf("fork %d has %.300q, want %.300q", n, got, want)
			}
		}
		write(t, filepath.Join(at, "mine"), fmt.Sprint("of ", n))
	}
	for n, rec := range recs {
		wantFile(t, w.m.Mountpoint(rec), "mine", fmt.Sprint("of ", n))
		wantFile(t, w.m.Mountpoint(rec), "file-7", "7")
	}
	wantFile(t, w.m.mounter.Upper(meta.Workspace{ID: id, Clone: rec.Clone}), "mine", strings.Repeat("x", 1<<20))
}

// TestRewindAtOnce: a volume goes back as soon as its last container has ended, while what that wrote is being written to the
// disk and its cache is being published.
func TestRewindAtOnce(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "one")
	one := w.checkpoint(rec.ID, Note{})
	for n := range 300 {
		put(t, dir, stored(fmt.Sprint(n)), fmt.Sprint(n))
		write(t, filepath.Join(dir, fmt.Sprint("file-", n)), strings.Repeat("x", 10_000))
	}
	w.release("v", "1")
	r, err := w.requestFrom(one.ID, "v", "", "mode", "keep")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Rewind(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, dir = w.join("v", "2")
	wantFile(t, dir, "mine", "one")
	w.release("v", "2")
}
