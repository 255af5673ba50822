package clone

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

// Files of a submodule keep their times, unless another submodule has taken its place.
// Nothing is held afterwards.
func TestSubmodulesKeepTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, name := range []string{"sub", "other"} {
		w.Commit(name, gitserver.Change{Path: "same", Content: "same\n"}, gitserver.Change{Path: "moved", Content: name})
	}
	// Submodules are branches of the repository itself.
	commit := func(modules string, paths map[string]string) {
		t.Helper()
		w.Commit("main", gitserver.Change{Path: ".gitmodules", Content: modules})
		w.remote("read-tree", "main")
		for path, branch := range paths {
			w.remote("update-index", "--add", "--cacheinfo", "160000,"+w.remote("rev-parse", branch)+","+path)
		}
		w.remote("update-ref", "refs/heads/main", w.remote("commit-tree", "-p", "main", "-m", "m", w.remote("write-tree")))
	}
	section := func(name, path string) string {
		return "[submodule \"" + name + "\"]\n\tpath = " + path + "\n\turl = ./\n"
	}
	s := w.spec("ref", "main", "submodules", "true")
	c := w.clone(s)
	build := func() meta.Layer {
		t.Helper()
		w.Advance(time.Minute)
		co := w.prepare(s)
		co.Release()
		return co.Tree
	}
	modified := func(l meta.Layer, name string) time.Time {
		t.Helper()
		info, err := os.Lstat(filepath.Join(c.dirOf(meta.Tree, l.ID), name))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	commit(section("one", "a")+section("two", "b"), map[string]string{"a": "sub", "b": "sub"})
	first := build()
	if names := testdir.Names(t, filepath.Join(c.dirOf(meta.Tree, first.ID), ".git/modules")); len(names) != 2 {
		t.Fatalf("submodules %q, want two", names)
	}
	w.remote("update-ref", "refs/heads/keep", "main") // and its tree stays
	hold := w.prepare(w.spec("ref", "keep", "submodules", "true"))
	commit(section("one", "a")+section("two", "b"), map[string]string{"a": "other"})
	second := build()
	for name, same := range map[string]bool{"README.md": true, "a/same": true, "a/moved": false, "b/same": true, "b/moved": true} {
		if got := modified(second, name).Equal(modified(first, name)); got != same {
			t.Errorf("%s has the same time: %v, want %v", name, got, same)
		}
	}
	// The two repositories change places.
	hold.Release()
	hold = w.prepare(s)
	defer hold.Release()
	commit(section("one", "b")+section("two", "a"), nil)
	third := build()
	if !modified(third, "README.md").Equal(modified(second, "README.md")) {
		t.Error("README.md has another time")
	}
	for _, name := range []string{"a/same", "b/same"} {
		for _, was := range []string{"a/same", "b/same"} {
			if modified(third, name).Equal(modified(second, was)) {
				t.Errorf("%s has the time that %s had, of another submodule", name, was)
			}
		}
	}
	w.idle(c)
	for _, l := range c.layers.List(meta.Tree) {
		if held := c.layers.Held(meta.Tree, l.ID); held != (l.ID == second.ID) {
			t.Errorf("tree %s is held: %v", l.ID, held)
		}
	}
	c.layers.Drop(meta.Tree, second.ID) // once is enough
	if c.layers.Held(meta.Tree, second.ID) {
		t.Error("the tree is held several times")
	}
	c.layers.Hold(meta.Tree, second.ID)
}
