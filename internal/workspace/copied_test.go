package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// copyData replaces the data directory, while the plugin is down and nothing is mounted, by a copy that a
// command makes of $0 at $1.
func (w *world) copyData(command string) {
	w.t.Helper()
	w.close()
	testdir.Unmount(w.t, w.root)
	old := w.root + ".old"
	if err := os.Rename(w.root, old); err != nil {
		w.t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-ec", command, old, w.root).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", command, err, out)
	}
	if err := os.RemoveAll(old); err != nil {
		w.t.Fatal(err)
	}
	w.restart()
}

// filesOf returns the files below a directory but .git and the link to the cache, with their content.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	list, err := exec.Command("find", dir, "-path", dir+"/.git", "-prune", "-o", "-type", "f", "-printf", `%P\n`).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(list)) {
		all[name] = content(t, filepath.Join(dir, name))
	}
	return all
}

// changeAll makes every kind of change whose meaning is in an attribute.
func changeAll(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(
		os.Chmod(filepath.Join(dir, "README.md"), 0o755), os.Rename(filepath.Join(dir, "dir"), filepath.Join(dir, "moved")),
		os.RemoveAll(filepath.Join(dir, "swap")), os.Mkdir(filepath.Join(dir, "swap"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "swap/mine"), "x")
}

// TestCopied: after a copy of the data directory without extended attributes kept work and checkpoints are
// refused, trees are built again, and warm directories begin anew. After a copy with them all is as before.
func TestCopied(t *testing.T) {
	t.Parallel()
	const lost = "extended attributes"
	for _, tt := range []struct {
		command string
		whole   bool
	}{
		{`cp -a "$0" "$1"`, true},
		{`mkdir "$1"; tar --xattrs --xattrs-include='*' -cC "$0" . | tar --xattrs --xattrs-include='*' -xpC "$1"`, true},
		{`cp -a --no-preserve=xattr "$0" "$1"`, false},
		{`cp -a --no-preserve=xattr,links "$0" "$1"`, false},
		{`cp -r "$0" "$1"`, false},
		{`mkdir "$1"; tar -cC "$0" . | tar -xpC "$1"`, false},
		{`cp -a "$0" "$1"; cd "$1/clones"; mv default old; cp -a --no-preserve=xattr old default; rm -r old`, false},
	} {
		t.Run(tt.command, func(t *testing.T) {
			t.Parallel()
			w := newCheckpointWorld(t)
			commit := func(changes ...gitserver.Change) {
				t.Helper()
				if _, err := gitserver.Commit(w.server.Path("r"), "main", changes...); err != nil {
					t.Fatal(err)
				}
			}
			commit(gitserver.Change{Path: "dir/a", Content: "a"}, gitserver.Change{Path: "swap/old", Content: "old"})
			latest := []string{"refresh", "always", "warm", "nm"}
			_, dir := w.open("v", "1", latest...)
			put(t, dir, "nm/p/old", "1")
			w.end("v", "1")
			_, dir = w.open("v", "2", latest...)
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "nm/p")), os.Mkdir(filepath.Join(dir, "nm/p"), 0o755)); err != nil {
				t.Fatal(err)
			}
			put(t, dir, "nm/p/new", "2")
			w.end("v", "2")
			kept, dir := w.open("k", "1", "mode", "keep")
			changeAll(t, dir)
			keptFiles := filesOf(t, dir)
			w.release("k", "1")
			checkpoint, dir := w.open("d", "1")
			changeAll(t, dir)
			w.end("d", "1")
			w.checkpointOf(checkpoint.ID)
			// A tree on a tree, in which a directory takes the place of another.
			commit(gitserver.Change{Path: "swap/old", Delete: true}, gitserver.Change{Path: "swap/new", Content: "new"})
			rec, dir := w.open("p", "1", "refresh", "always")
			if len(rec.Chain) < 2 {
				t.Fatalf("chain %q", rec.Chain)
			}
			files := filesOf(t, dir)
			w.end("p", "1")

			w.copyData(tt.command)
			rec, dir = w.open("p", "2", "refresh", "always")
			if got := filesOf(t, dir); !maps.Equal(got, files) || testgit.GitAny(t, dir, "status", "--porcelain") != "" {
				t.Errorf("a private workspace has %q, want %q; %s", got, files, testgit.GitAny(t, dir, "status", "--porcelain"))
			}
			_, dir = w.open("v", "3", latest...)
			want := map[bool]map[string]string{true: {"p/new": "2"}, false: {}}[tt.whole]
			got := map[string]string{}
			if _, err := os.Stat(filepath.Join(dir, "nm")); err == nil {
				got = filesOf(t, filepath.Join(dir, "nm"))
			}
			if !maps.Equal(got, want) {
				t.Errorf("the warm directory has %q, want %q", got, want)
			}
			commit(gitserver.Change{Path: "later", Content: "x"})
			_, dir = w.open("p", "3", "refresh", "always") // the store can be fetched into
			wantFile(t, dir, "later", "x")

			if _, ok, err := w.m.Join(t.Context(), Lease{"k", "2"}); !tt.whole {
				refused(t, "Join", err, `volume "k"`, lost, "rsync -aHAX", "cp -a")
			} else if err != nil || !ok {
				t.Errorf("Join: %v, %v", ok, err)
			} else if got := filesOf(t, w.m.Mountpoint(kept)); !maps.Equal(got, keptFiles) {
				t.Errorf("kept is %q, want %q", got, keptFiles)
			}
			if h, err := w.m.Hold(t.Context(), checkpoint.ID); !tt.whole {
				refused(t, "Hold", err, lost)
			} else if err != nil {
				t.Error(err)
			} else {
				h.Release()
			}
			if _, dir, err := w.fork(checkpoint.ID, "forked", "1"); !tt.whole {
				refused(t, "Open", err, checkpoint.ID, lost, "the checkpoint")
			} else if err != nil {
				t.Error(err)
			} else if !maps.Equal(filesOf(t, dir), keptFiles) {
				t.Errorf("it begins with %q, want %q", filesOf(t, dir), keptFiles)
			}
			if tt.whole {
				return
			}
			// The volume can be removed. Nothing is deleted for that: the files may be of use to somebody.
			if err := w.m.End(t.Context(), "k", func(*meta.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
			reaped(t, w)
			w.checkpointOf(kept.ID)
			if err := w.m.EvictCheckpoint(kept.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCopiedLayers: a workspace whose layers alone are copies is refused, also when one of them has been
// built again in the place of a part of the chain.
func TestCopiedLayers(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	w.open("a", "1", "refresh", "always")
	w.end("a", "1")
	w.push()
	rec, _ := w.open("k", "1", "mode", "keep", "refresh", "always")
	if len(rec.Chain) < 2 {
		t.Fatalf("chain %q", rec.Chain)
	}
	w.release("k", "1")
	w.copyData(fmt.Sprintf(`cp -a "$0" "$1"; cd "$1/clones/%s"; for d in trees refs; do mv $d old; cp -a --no-preserve=xattr old $d; rm -r old; done`, rec.Clone))
	_, _, err := w.m.Join(t.Context(), Lease{"k", "2"})
	refused(t, "Join", err, "extended attributes")
	again, _ := w.open("p", "1")
	if again.Tree != rec.Tree || len(again.Chain) != 1 {
		t.Fatalf("the tree was not built again: %q, %q", again.Chain, rec.Chain)
	}
	for _, dir := range w.m.mounter.Lower(w.clones.Lookup(rec.Clone), rec) {
		if err := overlay.Mark(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.m.Join(t.Context(), Lease{"k", "3"}); !errors.Is(err, mounter.ErrCopied) {
		t.Errorf("on a chain that does not fit together: %v", err)
	}
}

// TestCopiedWhileInUse: what a private workspace had when its data was copied without extended attributes
// becomes a checkpoint, even if it seems to have no changes, and nothing of it a warm layer.
func TestCopiedWhileInUse(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "warm", "nm")
	put(t, dir, "nm/x", "x")
	w.copyData(`cp -a --no-preserve=xattr "$0" "$1"`)
	w.release("v", "1")
	reaped(t, w)
	w.checkpointOf(rec.ID)
	_, dir = w.open("v", "2", "warm", "nm")
	wantFile(t, dir, "nm/x", "")
}

// TestMarkedBeforeItsRecord: a kept workspace whose record is committed has its mark on disk, and a crash before
// that leaves no workspace: so a mark that is missing is not the work of a crash.
func TestMarkedBeforeItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1", "mode", "keep")
	for _, dir := range append(w.m.mounter.Lower(w.clones.Lookup(rec.Clone), rec), w.m.mounter.Upper(rec)) {
		if whole, err := overlay.Marked(dir); err != nil || !whole {
			t.Errorf("%s: %v, %v", dir, whole, err)
		}
	}
	w.close()
	testdir.Unmount(t, w.root)
	if err := unix.Removexattr(w.m.mounter.Upper(rec), "trusted.overlay.helmdeck"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if _, _, err := w.m.Join(t.Context(), Lease{"v", "2"}); !errors.Is(err, mounter.ErrCopied) {
		t.Errorf("Join without the mark: %v", err)
	}
}
