package tree

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testworld"
	"github.com/helmdeck/repos/tests/wait"
)

// flat waits for the flat tree that replaces t.
func (w *world) flat(t meta.Layer) meta.Layer {
	w.T.Helper()
	var flat meta.Layer
	wait.For(w.T, "the flat tree", func() error {
		var ok bool
		flat, ok = w.c.flat(t.Shape, t.Commit)
		return wait.Check(ok, "there is none")
	})
	return flat
}

// TestFlatten checks that a tree with a long or heavy chain is replaced in the background.
// The new tree has the same files, and a valid index: the first git status reads no file.
func TestFlatten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		at     int
		from   int64
		layers int // of the tree that is flattened
	}{
		{"by length", 3, flattenFrom, 3},
		{"by weight", 100, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testworld.WithBothGits(t, func(t *testing.T, system string) {
				t.Parallel()
				testFlatten(t, newWorld(t, system), tt.at, tt.from, tt.layers)
			})
		})
	}
}

func testFlatten(t *testing.T, w *world, at int, from int64, layers int) {
	w.common.flattenAt = 1000
	s := w.spec("ref", "main")
	c := w.c
	w.prepare(s).Release()
	for i := 1; i < layers; i++ {
		w.Advance(time.Minute) // so that the content differs
		w.Commit("main", gitserver.Change{Path: "heavy", Content: strings.Repeat(w.Now().String(), 20_000)})
		if i+1 < layers {
			w.prepare(s).Release()
		}
	}
	deep := w.prepare(s)
	if len(deep.Tree.Chain) != layers {
		t.Fatalf("chain %q, want %d", deep.Tree.Chain, layers)
	}
	before := w.Mount(deep.Lower, 0)
	w.idle()
	// Not before, because the tree could be flattened before it is held.
	c.mu.Lock()
	w.common.flattenAt, w.common.flattenFrom = at, from
	c.mu.Unlock()
	c.addCandidate(s, deep.Tree)
	w.measure(t.Context())
	flat := w.flat(deep.Tree)
	built := time.Now()
	w.Server.Reset()
	co := w.prepare(s)
	if co.Tree.ID != flat.ID || !slices.Equal(co.Tree.Chain, []string{flat.ID}) || co.GitLayer.ID != deep.GitLayer.ID {
		t.Fatalf("a mount uses %+v, want the flat tree %s", co.Tree, flat.ID)
	}
	dir := w.Mount(co.Lower, 0)
	if !maps.Equal(testdir.Contents(t, before), testdir.Contents(t, dir)) {
		t.Error("the flat tree has other files")
	}
	if err := filepath.WalkDir(w.dirOf(flat.ID), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "index" {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().Unix() >= built.Unix() {
			t.Errorf("%s has the time %v, which is not before the second of %v", path, info.ModTime(), built)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{before, dir} {
		if got := testgit.Git(t, at, "diff-files", "--name-only"); got != "" {
			t.Errorf("git diff-files lists %q", got)
		}
		if got := testgit.Git(t, at, "status", "--porcelain"); got != "" {
			t.Errorf("status %q", got)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(at), "upper/.git/index")); !os.IsNotExist(err) {
			t.Errorf("the index was rewritten (%v)", err)
		}
	}
	// The chain stays while deep holds it.
	if err := c.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testdir.Names(t, w.dirOf("")); len(got) != layers+1 {
		t.Errorf("trees %q, want the chain and the flat tree", got)
	}
	deep.Release()
	if err := c.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testdir.Names(t, w.dirOf("")); !slices.Equal(got, []string{flat.ID}) {
		t.Errorf("trees %q, want only the flat tree %s", got, flat.ID)
	}
	co.Release()
	w.idle()
	w.restart("boot 1")
	co = w.prepare(s)
	if co.Tree.ID != flat.ID {
		t.Errorf("after a restart: tree %s, want %s", co.Tree.ID, flat.ID)
	}
	co.Release()
	w.Advance(time.Minute)
	w.Push("main")
	co = w.prepare(s)
	defer co.Release()
	if want := []string{co.Tree.ID, flat.ID}; !slices.Equal(co.Tree.Chain, want) {
		t.Errorf("the next tree stands on %q, want %q", co.Tree.Chain, want)
	}
	if got := testgit.Git(t, w.Mount(co.Lower, 0), "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
}

// TestFlattenReplacesLeftover checks that a flat tree replaces a directory without a record,
// which a killed plugin has left.
func TestFlattenReplacesLeftover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.common.flattenAt = 1000
	s := w.spec("ref", "main")
	c := w.c
	w.prepare(s).Release()
	w.Advance(time.Minute)
	w.Push("main")
	deep := w.prepare(s)
	defer deep.Release()
	left := filepath.Join(w.dirOf(flatID(deep.Tree.Shape, deep.Tree.Commit)), "left")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds the tree
		if err := c.flatten(t.Context(), s, deep.Tree); err != nil {
			t.Fatal(err)
		}
	}
	co := w.prepare(s)
	defer co.Release()
	if len(co.Tree.Chain) != 1 {
		t.Errorf("chain %q, want the flat tree", co.Tree.Chain)
	}
	if got := testgit.Git(t, w.Mount(co.Lower, 0), "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("the leftover is in the tree: %v", err)
	}
}

// TestFlattenSkipsUnneededTree checks that a tree is not flattened if no ref is at its commit,
// even if another tree stands on it.
func TestFlattenSkipsUnneededTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.c
	w.prepare(s).Release()
	var trees []meta.Layer
	for range 2 {
		w.Advance(time.Minute)
		w.Push("main")
		co := w.prepare(s)
		defer co.Release()
		trees = append(trees, co.Tree)
	}
	w.idle()
	c.toFlatten()
	w.common.flattenAt = 2
	for i, want := range []int{0, 1} {
		c.addCandidate(s, trees[i])
		if got := c.toFlatten(); len(got) != want {
			t.Errorf("tree %d: %d to flatten, want %d", i, len(got), want)
		}
	}
}
