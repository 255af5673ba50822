package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testtree"
)

// TestFrom: any number of workspaces begin with one checkpoint, at once, each with all of it and with a life of its own.
// The checkpoint stays as it is, and is evicted only when nothing stands on it.
func TestFrom(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "ref", "main")
	write(t, filepath.Join(dir, "mine"), "x")
	write(t, filepath.Join(dir, "README.md"), "changed")
	testgit.GitAny(t, dir, "add", "mine")
	testgit.GitAny(t, dir, "stash", "push", "-q", "README.md")
	testgit.GitAny(t, dir, "switch", "-qc", "topic")
	testgit.GitAny(t, dir, "commit", "-qm", "mine")
	write(t, filepath.Join(dir, "untracked"), "y")
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "src")), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	state := func(dir string) string {
		return strings.Join([]string{
			testgit.GitAny(t, dir, "status", "--porcelain=v2", "--branch"), testgit.GitAny(t, dir, "stash", "list", "--format=%H"),
			testgit.GitAny(t, dir, "for-each-ref"), testgit.GitAny(t, dir, "rev-parse", "HEAD"),
		}, "\n")
	}
	want := state(dir)
	w.end("v", "1")
	d := w.checkpointOf(rec.ID)
	dirs := make([]string, 20)
	var all sync.WaitGroup
	for i := range dirs {
		all.Go(func() {
			r, err := w.requestFrom(d.ID, fmt.Sprint("f", i), "1")
			if err == nil {
				var rec meta.Workspace
				rec, err = w.m.Open(t.Context(), r)
				dirs[i] = w.m.Mountpoint(rec)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for i, dir := range dirs {
		if got := state(dir); got != want {
			t.Errorf("fork %d has\n%s\nwant\n%s", i, got, want)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("fork %d: %v, %v", i, info, err)
		}
		write(t, filepath.Join(dir, "mine"), fmt.Sprint("of ", i))
		write(t, filepath.Join(dir, fmt.Sprint("own", i)), "")
	}
	for i, dir := range dirs {
		if got := content(t, filepath.Join(dir, "mine")); got != fmt.Sprint("of ", i) {
			t.Errorf("fork %d has %q", i, got)
		}
		testgit.GitAny(t, dir, "fsck", "--strict")
	}
	if !w.checkpointOf(d.ID).Used {
		t.Error("the checkpoint is not in use")
	}
	refused(t, "Evict", w.m.EvictCheckpoint(d.ID), d.ID, "stands on")
	for i := range dirs {
		w.release(fmt.Sprint("f", i), "1")
	}
	reaped(t, w)
	refused(t, "Evict below checkpoints", w.m.EvictCheckpoint(d.ID), d.ID, "checkpoint", "stands on")
	if got := w.m.Checkpoints(); len(got) != len(dirs)+1 {
		t.Fatalf("%d checkpoints", len(got))
	}
	for _, other := range w.m.Checkpoints() {
		if other.ID != d.ID {
			if !slices.Equal(other.Below, []string{d.ID}) {
				t.Errorf("%+v", other)
			}
			if err := w.m.EvictCheckpoint(other.ID); err != nil {
				t.Error(err)
			}
		}
	}
	if err := w.m.EvictCheckpoint(d.ID); err != nil {
		t.Error(err)
	}
	if left := w.workspaces(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// TestFromUnchanged: a workspace that changed nothing since leaves nothing, and a checkpoint can be begun with again.
func TestFromUnchanged(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	d := w.leave("v")
	for _, mode := range []string{"private", "shared", "keep"} {
		_, dir := w.forked(d.ID, mode, "1", "mode", mode)
		testgit.GitAny(t, dir, "status")
		w.release(mode, "1")
		if mode == "keep" {
			if err := w.m.End(t.Context(), mode, func(*meta.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		reaped(t, w)
		if got := w.m.Checkpoints(); len(got) != 1 || got[0].ID != d.ID {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

// TestFromChain: workspaces begin with what began with a checkpoint, and see the changes of all, in their order, also
// after a restart, and after another boot if they are kept. There is an end to that if they are not merged.
func TestFromChain(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	w := newCheckpointWorld(t)
	w.stopMerges()
	id := w.leave("v").ID
	for n := range maxFrom {
		rec, dir := w.forked(id, "v", "1")
		for i := range n {
			if content(t, filepath.Join(dir, fmt.Sprint("f", i))) != fmt.Sprint(i) {
				t.Fatalf("%d: %d is missing", n, i)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, "d")); n%2 == 1 != (err == nil) {
			t.Fatalf("%d: d: %v", n, err)
		}
		write(t, filepath.Join(dir, fmt.Sprint("f", n)), fmt.Sprint(n))
		if n%2 == 0 {
			if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "d/x"), "")
		} else if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
			t.Fatal(err)
		}
		w.end("v", "1")
		w.checkpointOf(rec.ID)
		id = rec.ID
	}
	_, _, err := w.fork(id, "v", "1")
	refused(t, "one more", err, id, "docker repos push")
	rec, err := w.m.Checkpoint(id, volume.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	kept, dir := w.forked(rec.From[0], "k", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "kept")
	w.release("k", "1")
	w.restart()
	w.boot = "another"
	w.restart()
	if _, dir = w.join("k", "2"); content(t, filepath.Join(dir, "mine")) != "kept" || content(t, filepath.Join(dir, "f3")) != "3" {
		t.Errorf("kept: %+v", kept)
	}
	w.release("k", "2")
	// A clone is cleared from the top.
	published(t, w, kept)
	if _, err := w.m.Clear(t.Context(), kept.Clone, true, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if left := w.workspaces(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// TestFromLocks: git's locks in a checkpoint are gone in what begins with it, and helmdeck.json names them. Nothing else
// is removed, and the checkpoint keeps them.
func TestFromLocks(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1")
	locks := []string{
		".git/index.lock", ".git/refs/heads/main.lock", ".git/config.lock", ".git/refs/heads/objects/x.lock",
		".git/objects/maintenance.lock", ".git/objects/pack/multi-pack-index.lock", ".git/objects/info/commit-graphs/commit-graph-chain.lock",
		".git/modules/objects/index.lock", ".git/modules/objects/ab/index.lock", ".git/modules/objects/objects/maintenance.lock",
	}
	others := []string{
		"a.lock", ".git/hooks/y.lock.d", ".git/objects/ab/x.lock", ".git/lfs/objects/ab/x.lock", ".git/modules/objects/objects/ab/x.lock",
	}
	for _, name := range append(others, locks...) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), "")
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, ".git/link.lock")); err != nil {
		t.Fatal(err)
	}
	w.end("v", "1")
	w.checkpointOf(rec.ID)
	for range 2 {
		_, dir = w.forked(rec.ID, "f", "1")
		for _, name := range locks {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.Contains(content(t, filepath.Join(dir, ".git/helmdeck.json")), name) {
				t.Errorf("%s is not named", name)
			}
		}
		for _, name := range append(others, ".git/link.lock") {
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
		testgit.GitAny(t, dir, "add", "a.lock")
		w.end("f", "1")
	}
}

// TestFromStrange: whatever a container made of .git and of the top directory, what begins with it is mounted, and
// shows the same.
func TestFromStrange(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	for name, do := range map[string]func(dir string) error{
		"no .git": func(dir string) error { return os.RemoveAll(filepath.Join(dir, ".git")) },
		"a file": func(dir string) error {
			return replaceGit(dir, func(p string) error { return os.WriteFile(p, nil, 0o644) })
		},
		"a link":         func(dir string) error { return replaceGit(dir, func(p string) error { return os.Symlink("/etc", p) }) },
		"a FIFO":         func(dir string) error { return replaceGit(dir, func(p string) error { return unix.Mkfifo(p, 0o644) }) },
		"a link in .git": func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, ".git/x.lock")) },
		"a directory": func(dir string) error {
			about := filepath.Join(dir, ".git/helmdeck.json")
			return errors.Join(os.Remove(about), os.MkdirAll(filepath.Join(about, "x.lock"), 0o755))
		},
		"the top": func(dir string) error {
			return errors.Join(unix.Setxattr(dir, "system.posix_acl_default", defaultACL, 0), unix.Setxattr(dir, "user.mine", []byte("x"), 0),
				unix.Setxattr(dir, "trusted.mine", nil, 0), os.Chown(dir, 7, 8), os.Chmod(dir, 0o3770),
				os.Chtimes(dir, time.Unix(1, 0), time.Unix(2, 3)))
		},
	} {
		rec, dir := w.open("v", "1")
		write(t, filepath.Join(dir, "mine"), "x")
		if err := do(dir); err != nil {
			t.Fatal(name, err)
		}
		want := top(t, dir)
		w.end("v", "1")
		w.checkpointOf(rec.ID)
		_, dir, err := w.fork(rec.ID, "f", "1")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := top(t, dir); got != want {
			t.Errorf("%s: begins with %s, want %s", name, got, want)
		}
		w.end("f", "1")
	}
}

func replaceGit(dir string, make func(path string) error) error {
	path := filepath.Join(dir, ".git")
	return errors.Join(os.RemoveAll(path), make(path))
}

// defaultACL is rwxr-x--- with another user who may read.
var defaultACL = []byte("\x02\x00\x00\x00" +
	"\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\x07\x00\x00\x00" + "\x04\x00\x05\x00\xff\xff\xff\xff" +
	"\x10\x00\x05\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")

// top describes the top directory of a workspace and its .git.
func top(t *testing.T, dir string) string {
	t.Helper()
	var git unix.Stat_t
	err := unix.Lstat(filepath.Join(dir, ".git"), &git)
	return fmt.Sprintf("%s; .git %o, %v", testtree.Describe(t, dir, false)["."], git.Mode, err)
}

// TestFromEvicted: of workspaces that begin with a checkpoint and evictions of it, at once, those that succeed fit
// together. What fails leaves nothing.
func TestFromEvicted(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	for range 10 {
		d := w.leave("v")
		r, err := w.requestFrom(d.ID, "f", "1")
		if err != nil {
			t.Fatal(err)
		}
		var opened, evicted error
		var rec meta.Workspace
		var both sync.WaitGroup
		both.Go(func() { rec, opened = w.m.Open(t.Context(), r) })
		both.Go(func() { evicted = w.m.EvictCheckpoint(d.ID) })
		both.Wait()
		var none *NoCheckpointError
		var used *InUseError
		switch {
		case opened == nil && errors.As(evicted, &used):
			if got := content(t, filepath.Join(w.m.Mountpoint(rec), "mine")); got != "x" {
				t.Errorf("it begins with %q", got)
			}
			w.end("f", "1")
			if err := w.m.EvictCheckpoint(d.ID); err != nil {
				t.Error(err)
			}
		case errors.As(opened, &none) && evicted == nil:
		default:
			t.Fatalf("Open: %v; Evict: %v", opened, evicted)
		}
		if left := w.workspaces(); len(left) > 0 {
			t.Fatalf("left are %q", left)
		}
	}
}
