package workspace

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// join gives a lease to the workspace that a volume shares or keeps, and returns its record
// and where it is mounted.
func (w *world) join(name, id string) (meta.Workspace, string) {
	w.t.Helper()
	rec, ok, err := w.m.Join(w.t.Context(), Lease{name, id})
	if err != nil || !ok {
		w.t.Fatalf("Join: %v, %v", ok, err)
	}
	return rec, w.m.Mountpoint(rec)
}

// refused fails the test unless the text of err contains all parts.
func refused(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s succeeded, want an error with %q", what, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q in it", what, err, part)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// content returns the content of a file; empty for a missing file.
func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// mountOptions returns the line of the mount at dir in /proc/self/mountinfo.
func mountOptions(t *testing.T, dir string) string {
	t.Helper()
	for line := range strings.Lines(content(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, " "+dir+" ") {
			return line
		}
	}
	t.Fatalf("nothing is mounted at %s", dir)
	return ""
}

// TestKept: a kept workspace survives the end of its leases, of the plugin's process, of the
// mounts and of the boot, on the same layers. It is never volatile.
func TestKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, dir := w.open("v", "1", "mode", "keep", "ref", "main", "uid", "1234", "gid", "1234")
	write(t, filepath.Join(dir, "mine"), "x")
	write(t, filepath.Join(dir, "README.md"), "changed")
	testgit.GitAny(t, dir, "commit", "-qam", "mine")
	head := testgit.GitAny(t, dir, "rev-parse", "HEAD")
	w.release("v", "1")
	if got, _ := filepath.Glob(filepath.Join(w.root, "trash/*")); len(got) > 0 {
		t.Errorf("in the trash: %q", got)
	}
	for _, tt := range []struct {
		event string
		do    func()
	}{
		{"nothing", func() {}},
		{"the plugin was started anew", func() { w.restart() }},
		{"all mounts have gone", func() { w.close(); testdir.Unmount(t, w.root); w.restart() }},
		{"they have gone while leased", func() { w.join("v", "old"); w.close(); testdir.Unmount(t, w.root); w.restart() }},
		{"the machine was", func() { w.close(); testdir.Unmount(t, w.root); w.boot += "+"; w.restart() }},
		{"the remote has moved, and gone", func() { w.push(); w.server.Close(); w.restart() }},
	} {
		id := tt.event
		tt.do()
		if kept, ok := w.m.Kept("v"); !ok || kept.ID != made.ID || len(kept.Leases) > 0 {
			t.Errorf("%s: kept %+v, %v", id, kept, ok)
		}
		rec, dir := w.join("v", id)
		if rec.ID != made.ID || len(rec.Leases) != 1 {
			t.Errorf("%s: joined %+v", id, rec)
		}
		if content(t, filepath.Join(dir, "mine")) != "x" || testgit.GitAny(t, dir, "rev-parse", "HEAD") != head || testgit.GitAny(t, dir, "status", "--porcelain") != "?? mine" {
			t.Errorf("%s: %q", id, testgit.GitAny(t, dir, "status"))
		}
		if line := mountOptions(t, dir); strings.Contains(line, "volatile") {
			t.Errorf("%s: mounted as %s", id, line)
		}
		if _, err := os.Stat(filepath.Join(dir, ".git/hdcache/go-mod")); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		for _, l := range rec.Chain {
			if _, err := os.Stat(filepath.Join(w.root, "clones", rec.Clone, "trees", l)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		w.release("v", id)
	}
}

// push adds a commit to the remote's main.
func (w *world) push() {
	w.t.Helper()
	if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "pushed", Content: "x"}); err != nil {
		w.t.Fatal(err)
	}
}

// TestKeptIsDurable: when a kept workspace has a record, its layers are durable.
func TestKeptIsDurable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1", "mode", "keep")
	w.close()
	db, state, err := meta.Open(filepath.Join(w.root, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, id := range rec.Chain {
		if l := state.Trees[rec.Clone+"/"+id]; !l.Durable {
			t.Errorf("tree %+v", l)
		}
	}
	if l := state.GitLayers[rec.Clone+"/"+rec.GitLayer]; !l.Durable {
		t.Errorf("git layer %+v", l)
	}
}

// TestHeldWorkspace: a Join is refused while a container still uses a workspace that is not
// mounted here, and succeeds when the container has ended. Not parallel: the holder would
// keep the workspaces of other tests busy.
func TestHeldWorkspace(t *testing.T) {
	for _, mode := range []string{"shared", "keep"} {
		w := newWorld(t)
		w.held = time.Nanosecond
		made, dir := w.open("v", "1", "mode", mode)
		write(t, filepath.Join(dir, "mine"), "x")
		h := hold(t, w.root, dir)
		w.close()
		testdir.Unmount(t, w.root)
		w.restart()
		for range 2 {
			_, _, err := w.m.Join(t.Context(), Lease{"v", "2"})
			if ended := mode == "shared"; ended {
				_, err := w.m.Checkpoint(made.ID, volume.DefaultSubject)
				refused(t, "Checkpoint", err, made.ID, "a container still uses it")
				refused(t, "Evict", w.m.EvictCheckpoint(made.ID), "a container still uses it")
			}
			refused(t, mode+": Join", err, `volume "v"`, "a container that outlived", "docker ps --filter volume=v", "run it again")
			w.restart()
		}
		w.open("other", "1", "mode", mode) // another volume does not wait
		w.release("v", "1")                // the engine's late Unmount
		h.end()
		var rec meta.Workspace
		wait.For(t, "the workspace to be free", func() error {
			var ok bool
			var err error
			rec, ok, err = w.m.Join(t.Context(), Lease{"v", "2"})
			return wait.Check(err == nil && ok == (mode == "keep"), "joined %t, %v", ok, err)
		})
		if mode == "keep" && (rec.ID != made.ID || content(t, filepath.Join(w.m.Mountpoint(rec), "mine")) != "x") {
			t.Errorf("joined %+v", rec)
		}
		if mode == "shared" {
			if rec, _ := w.open("v", "2", "mode", mode); rec.ID == made.ID {
				t.Error("an ended workspace was shared again")
			}
		}
	}
}

// TestKeptLost: the error names the missing directory, and the volume can be removed.
func TestKeptLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lose func(w *world, rec meta.Workspace) string
	}{
		{"a tree", func(w *world, rec meta.Workspace) string {
			return filepath.Join(w.root, "clones", rec.Clone, "trees", rec.Tree)
		}},
		{"the git layer", func(w *world, rec meta.Workspace) string {
			return filepath.Join(w.root, "clones", rec.Clone, "refs", rec.GitLayer)
		}},
		{"the upper", func(w *world, rec meta.Workspace) string { return w.m.mounter.Upper(rec) }},
		{"all of it", func(w *world, rec meta.Workspace) string { return w.m.mounter.Dir(rec) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rec, dir := w.open("v", "1", "mode", "keep")
			write(t, filepath.Join(dir, "mine"), "x")
			w.release("v", "1")
			w.close()
			testdir.Unmount(t, w.root)
			lost := tt.lose(w, rec)
			if err := os.RemoveAll(lost); err != nil {
				t.Fatal(err)
			}
			w.restart()
			_, _, err := w.m.Join(t.Context(), Lease{"v", "2"})
			refused(t, "Join", err, `volume "v"`, lost, "is gone", "remove the volume and create it again")
			if err := w.m.End(t.Context(), "v", func(*meta.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
			reaped(t, w)
			if _, ok := w.m.Kept("v"); ok {
				t.Error("it is still kept")
			}
		})
	}
}

// TestKeptOfAnotherKernel: an upper that was written with metacopy is not mounted
// without it.
func TestKeptOfAnotherKernel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if !testdir.Features(t).Metacopy {
		t.Fatal("this kernel has no metacopy")
	}
	w.open("v", "1", "mode", "keep")
	w.close()
	testdir.Unmount(t, w.root)
	w.older = true
	w.restart()
	_, _, err := w.m.Join(t.Context(), Lease{"v", "2"})
	refused(t, "Join", err, "metacopy", "this kernel lacks")
}

// TestKeptAbout: helmdeck.json is written again at each mount of the overlay. If a container
// has replaced it, no link is followed.
func TestKeptAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1", "mode", "keep", "uid", "1234", "gid", "2345")
	w.release("v", "1")
	outside := filepath.Join(scratch(t), "file")
	write(t, outside, "mine")
	for _, tt := range []struct {
		name    string
		replace func(git string) error
		there   bool
	}{
		{"as it was", func(string) error { return nil }, true},
		{"removed", func(git string) error { return os.Remove(filepath.Join(git, "helmdeck.json")) }, true},
		{"a link", func(git string) error {
			return errors.Join(os.Remove(filepath.Join(git, "helmdeck.json")), os.Symlink(outside, filepath.Join(git, "helmdeck.json")))
		}, true},
		{"another name of a file", func(git string) error {
			return errors.Join(os.Remove(filepath.Join(git, "helmdeck.json")), os.Link(outside, filepath.Join(git, "helmdeck.json")))
		}, true},
		{"a pipe", func(git string) error {
			return errors.Join(os.Remove(filepath.Join(git, "helmdeck.json")), syscall.Mkfifo(filepath.Join(git, "helmdeck.json"), 0o644))
		}, true},
		{"a directory", func(git string) error {
			return errors.Join(os.Remove(filepath.Join(git, "helmdeck.json")), os.Mkdir(filepath.Join(git, "helmdeck.json"), 0o755))
		}, false},
		{".git is a link", func(git string) error {
			return errors.Join(os.RemoveAll(git), os.Symlink(filepath.Dir(outside), git))
		}, false},
		{"no .git in the upper", func(git string) error { return os.Remove(git) }, true},
	} {
		w.close()
		testdir.Unmount(t, w.root)
		if err := tt.replace(filepath.Join(w.m.mounter.Upper(rec), ".git")); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		w.restart()
		_, dir := w.join("v", "2")
		path := filepath.Join(dir, ".git", "helmdeck.json")
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() != tt.there {
			t.Errorf("%s: %v", tt.name, info.Mode())
		}
		if tt.there {
			var got about
			if err := json.Unmarshal([]byte(content(t, path)), &got); err != nil || got.Volume != "v" || got.Commit != rec.Commit {
				t.Errorf("%s: %+v, %v", tt.name, got, err)
			}
			if uid, gid := testdir.Owner(t, path); uid != 1234 || gid != 2345 {
				t.Errorf("%s: belongs to %d:%d", tt.name, uid, gid)
			}
		}
		if got := content(t, outside); got != "mine" {
			t.Errorf("%s: the file outside has %q", tt.name, got)
		}
		w.release("v", "2")
	}
}

// TestEnd: End of a leased workspace is an error. Without a workspace End still calls with.
func TestEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.open("v", "1", "mode", "keep")
	calls := 0
	with := func(*meta.Tx) error { calls++; return nil }
	refused(t, "End", w.m.End(t.Context(), "v", with), `volume "v" is mounted`)
	w.release("v", "1")
	refused(t, "End", w.m.End(t.Context(), "v", func(*meta.Tx) error { return io.ErrUnexpectedEOF }), io.ErrUnexpectedEOF.Error())
	if _, ok := w.m.Kept("v"); !ok || calls != 0 {
		t.Errorf("kept: %v, %d calls", ok, calls)
	}
	wait.For(t, "the failed end to be over", func() error {
		_, ok, err := w.m.Join(t.Context(), Lease{"v", "2"})
		return wait.Check(ok && err == nil, "joined %t, %v", ok, err)
	})
	w.release("v", "2")
	for range 2 {
		if err := w.m.End(t.Context(), "v", with); err != nil {
			t.Error(err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	reaped(t, w)
	if points, err := testdir.Mounts(w.root); err != nil || len(points) > 0 || len(w.workspaces()) > 0 {
		t.Errorf("left: %v, %v, %q", points, err, w.workspaces())
	}
}
