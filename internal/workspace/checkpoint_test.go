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
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// newCheckpointWorld returns a world whose workspaces leave checkpoints.
func newCheckpointWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.close()
	w.ttl = time.Hour
	w.start()
	return w
}

// leave opens a workspace, writes a file, and waits for its checkpoint.
func (w *world) leave(name string) Checkpoint {
	w.t.Helper()
	rec, dir := w.open(name, "d")
	write(w.t, filepath.Join(dir, "mine"), "x")
	w.release(name, "d")
	reaped(w.t, w)
	return w.checkpointOf(rec.ID)
}

// checkpointOf waits until a checkpoint is counted.
func (w *world) checkpointOf(id string) (d Checkpoint) {
	w.t.Helper()
	wait.For(w.t, "the checkpoint to be counted", func() error {
		list := w.m.Checkpoints()
		i := slices.IndexFunc(list, func(d Checkpoint) bool { return d.ID == id && d.Changed != nil && !d.Size.At.IsZero() })
		if i >= 0 {
			d = list[i]
		}
		return wait.Check(i >= 0, "%+v", list)
	})
	return d
}

// requestFrom returns the request for a workspace of a new volume that begins with a checkpoint.
func (w *world) requestFrom(id, name, lease string, options ...string) (Request, error) {
	w.t.Helper()
	rec, err := w.m.Checkpoint(id, volume.DefaultSubject)
	if err != nil {
		return Request{}, err
	}
	given := map[string]string{"repo": rec.Options["repo"], "from": id}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	o, err := volume.ParseFrom(given, nil, rec.Options, volume.AllSchemes())
	if err != nil {
		return Request{}, err
	}
	err = w.db.Update(func(tx *meta.Tx) error { return tx.PutVolume(meta.Volume{Name: name, Options: o.Map()}) })
	return Request{Lease: Lease{name, lease}, Options: o, Clone: w.clones.Get(o.Subject, o.Repo)}, err
}

// fork opens a workspace that begins with a checkpoint.
func (w *world) fork(id, name, lease string, options ...string) (meta.Workspace, string, error) {
	w.t.Helper()
	r, err := w.requestFrom(id, name, lease, options...)
	if err != nil {
		return meta.Workspace{}, "", err
	}
	rec, err := w.m.Open(w.t.Context(), r)
	return rec, w.m.Mountpoint(rec), err
}

// forked is fork, which must succeed.
func (w *world) forked(id, name, lease string, options ...string) (meta.Workspace, string) {
	w.t.Helper()
	rec, dir, err := w.fork(id, name, lease, options...)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec, dir
}

// TestCheckpointLasts: a checkpoint and its layers survive restarts, another boot and a lost
// database, and the checkpoint can be begun with then.
func TestCheckpointLasts(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
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
	before := w.checkpointOf(rec.ID)
	if before.Volume != "v" || before.Subject != "default" || before.Repo != w.server.URL("r") || before.Commit != rec.Commit ||
		before.ExpiresAt.Sub(before.EndedAt) != time.Hour || before.Size.Bytes == 0 {
		t.Errorf("%+v", before)
	}
	if _, err := os.Lstat(filepath.Join(w.m.mounter.Dir(rec), "work/work/incompat/volatile")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of a volatile mount: %v", err)
	}
	w.push() // now only the checkpoint needs the layers
	w.open("v", "2", "ref", "main", "refresh", "always")
	for _, again := range []func(){
		func() { w.restart() },
		func() { w.close(); testdir.Unmount(t, w.root); w.boot = "another"; w.restart() },
		func() { w.rebuild() },
	} {
		again()
		if got := w.checkpointOf(rec.ID); got.Volume != "v" || *got.Changed != *before.Changed || got.EndedAt.Unix() != before.EndedAt.Unix() {
			t.Errorf("%+v, want %+v", got, before)
		}
	}
	again, dir := w.forked(rec.ID, "again", "1")
	if again.ID == rec.ID || !slices.Equal(again.Chain, rec.Chain) || again.GitLayer != rec.GitLayer || !slices.Equal(again.From, []string{rec.ID}) {
		t.Errorf("it begins as %+v, want the layers of %+v", again, rec)
	}
	if content(t, filepath.Join(dir, "mine")) != "x" || content(t, filepath.Join(dir, "README.md")) != "changed" || testgit.GitAny(t, dir, "rev-parse", "HEAD") != head {
		t.Errorf("status %s", testgit.GitAny(t, dir, "status"))
	}
	if _, err := os.Lstat(filepath.Join(dir, "src")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was removed: %v", err)
	}
	testgit.GitAny(t, dir, "fsck", "--strict")
}

// TestNoCheckpoint: a workspace of another boot leaves no checkpoint, because it was never
// synced. Without a CheckpointTTL there are no checkpoints.
func TestNoCheckpoint(t *testing.T) {
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
		w := newCheckpointWorld(t)
		rec, dir := w.open("v", "1")
		write(t, filepath.Join(dir, "mine"), "x")
		w.close()
		testdir.Unmount(t, w.root)
		tt.do(w)
		w.restart()
		reaped(t, w)
		if _, err := w.m.Checkpoint(rec.ID, volume.DefaultSubject); (err == nil) != tt.lasts {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := len(w.workspaces()); (got > 0) != tt.lasts {
			t.Errorf("%s: %d directories", tt.name, got)
		}
	}
}

// TestEvictCheckpoint: a checkpoint is evicted once. Others are errors.
func TestEvictCheckpoint(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	live, _ := w.open("v", "1")
	d := w.leave("v")
	var missing *NoCheckpointError
	for _, id := range []string{live.ID, "0123456789abcdef", ""} {
		if err := w.m.EvictCheckpoint(id); !errors.As(err, &missing) || missing.ID != id {
			t.Errorf("%q: %v, want that there is none", id, err)
		}
	}
	before := w.trash.Stats().Size
	if err := w.m.EvictCheckpoint(d.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.trash.Stats().Size.Sub(before); got != d.Size.Size || got.Bytes == 0 {
		t.Errorf("%+v more in the trash, want the checkpoint's %+v at once", got, d.Size.Size)
	}
	if err := w.m.EvictCheckpoint(d.ID); !errors.As(err, &missing) {
		t.Errorf("again: %v", err)
	}
	if got := w.m.Checkpoints(); len(got) > 0 || len(w.workspaces()) != 1 {
		t.Errorf("left: %+v, %q", got, w.workspaces())
	}
	if _, ok := w.records()[d.ID]; ok {
		t.Error("its record is left")
	}
}

// TestTrashedLater: if the directory of an evicted checkpoint can't be renamed to the trash,
// this is tried again.
func TestTrashedLater(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	d := w.leave("v")
	allow := testdir.Refuse(t, filepath.Join(w.root, "trash"))
	if err := w.m.EvictCheckpoint(d.ID); !errors.Is(err, unix.EXDEV) || len(w.workspaces()) != 1 {
		t.Fatalf("evicted: %v; left: %q", err, w.workspaces())
	}
	allow()
	wait.For(t, "it to be trashed", func() error { return wait.Equal(len(w.workspaces()), 0) })
}

// TestSweepCheckpoints: the sweep removes the record of a checkpoint without a directory, and
// repairs a wrong manifest.
func TestSweepCheckpoints(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	gone, stays := w.leave("v"), w.leave("v")
	rec, err := w.m.Checkpoint(stays.ID, volume.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(w.m.mounter.Dir(rec), mounter.ManifestName)
	lost := w.m.mounter.Dir(meta.Workspace{ID: gone.ID, Clone: rec.Clone})
	if err := errors.Join(os.RemoveAll(lost), os.WriteFile(manifest, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := w.m.Checkpoints(); len(got) != 1 || got[0].ID != stays.ID {
		t.Errorf("%+v", got)
	}
	w.rebuild()
	w.checkpointOf(stays.ID)
}
