package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

// next pushes a commit that takes a file away and brings it into the store. It
// returns the record of the commit's tree, which is not built.
func (w *world) next(s Spec) meta.Layer {
	w.t.Helper()
	w.advance(time.Minute)
	if _, err := gitserver.Commit(w.server.Path("r"), "main",
		gitserver.Change{Path: "pushed", Content: "x"}, gitserver.Change{Path: "README.md", Delete: true},
	); err != nil {
		w.t.Fatal(err)
	}
	r, _, err := w.c.remote.Resolve(w.t.Context(), s.Source, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	shape := layerID(treeShape, s.UID, s.GID, s.Files, s.submoduleBase())
	id := layerID("tree", shape, r.Commit)
	return meta.Layer{Kind: meta.Tree, ID: id, Chain: []string{id}, Commit: r.Commit, Shape: shape, Store: s.History.Name()}
}

// rootTree returns the ID of the tree of l's commit.
func (w *world) rootTree(s Spec, l meta.Layer) string {
	w.t.Helper()
	id, ok, err := w.git.Tree(w.t.Context(), w.c.remote.StoreDir(l.Store), l.Commit)
	if err != nil || !ok {
		w.t.Fatalf("tree of %s: %v, %v", l.Commit, ok, err)
	}
	return id
}

// wantClean mounts a checkout that has length layers, of what next has pushed.
func (w *world) wantClean(co *held, length int) {
	w.t.Helper()
	dir := w.mount(co, 0)
	if got := run(w.t, dir, 0, "status", "--porcelain"); got != "" || len(co.Tree.Chain) != length {
		w.t.Errorf("status %q of %d layers, want %d and no change", got, len(co.Tree.Chain), length)
	}
	if _, err := os.Lstat(filepath.Join(dir, "README.md")); !os.IsNotExist(err) {
		w.t.Errorf("a file that the commit took away: %v", err)
	}
}

// TestBaseStaysWhileBuiltOn: what a tree is built on stays until it is published,
// whoever wants it gone.
func TestBaseStaysWhileBuiltOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	co := w.prepare(s)
	co.Release()
	c, next := w.c, w.next(s)
	l, err := c.layer(t.Context(), meta.Tree, next.ID, func(ctx context.Context, dir string) (meta.Layer, error) {
		l := next
		err := c.fillTree(ctx, s, &l, w.rootTree(s, l), dir)
		if err := c.collect(t.Context()); err != nil { // no ref is at its commit any more
			t.Error(err)
		}
		if gone, stayed, err := c.layers.Evict([]string{co.Tree.ID}, Kinds...); gone != 0 || stayed != 1 || err != nil {
			t.Errorf("evict what a tree is being built on: %d gone, %d stayed, %v", gone, stayed, err)
		}
		return l, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{next.ID, co.Tree.ID}; !slices.Equal(l.Chain, want) {
		t.Errorf("chain %q, want %q", l.Chain, want)
	}
	if c.Held() {
		t.Error("held after the build")
	}
	again := w.prepare(s)
	defer again.Release()
	w.wantClean(again, 2)
}

// TestBaseIsGone: a tree that can't be built on another one is built whole, and
// stands on nothing.
func TestBaseIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	co := w.prepare(s)
	co.Release()
	w.next(s)
	if err := os.RemoveAll(w.dirOf(co.Tree.ID)); err != nil {
		t.Fatal(err)
	}
	again := w.prepare(s)
	defer again.Release()
	w.wantClean(again, 1)
}

// TestBaseIsOfAnotherStore: a tree is built on one of another history if its own
// store knows the commit, else on an older one or whole.
func TestBaseIsOfAnotherStore(t *testing.T) {
	t.Parallel()
	withBothGits(t, testBaseIsOfAnotherStore)
}

func testBaseIsOfAnotherStore(t *testing.T, w *world) {
	full, shallow := w.spec("ref", "main"), w.spec("ref", "main", "depth", "1")
	w.push("main") // a commit that no other branch and no tag is at
	for _, step := range []struct {
		name  string
		s     Spec
		layer int // of the chain
	}{
		{"the first", full, 1},
		{"a store of one commit, which does not know that one", shallow, 1},
		{"a store of all commits knows both", full, 2},
		{"a store of one commit knows its own", shallow, 2},
	} {
		co := w.prepare(step.s)
		if len(co.Tree.Chain) != step.layer {
			t.Errorf("%s: a chain of %d, want %d", step.name, len(co.Tree.Chain), step.layer)
		}
		if got := run(t, w.mount(co, 0), 0, "status", "--porcelain"); got != "" {
			t.Errorf("%s: status %q", step.name, got)
		}
		co.Release()
		w.advance(time.Minute)
		w.push("main")
	}
}

// TestBuildIsNotTrashed: what a build leaves can't go to the trash. The tree is
// good, and the next start's sweep takes the rest.
func TestBuildIsNotTrashed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.next(s)
	bin := filepath.Join(w.root, "trash")
	if err := os.Rename(bin, bin+".away"); err != nil {
		t.Fatal(err)
	}
	co := w.prepare(s)
	w.wantClean(co, 2)
	co.Release()
	trees := w.dirOf("")
	if got := testdir.Names(t, trees); !slices.ContainsFunc(got, durable.IsTemp) {
		t.Errorf("trees %q, want also what the build left", got)
	}
	if err := os.Rename(bin+".away", bin); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 1")
	if err := w.c.layers.TrashStrays(Kinds...); err != nil {
		t.Fatal(err)
	}
	if got := testdir.Names(t, trees); slices.ContainsFunc(got, durable.IsTemp) {
		t.Errorf("trees %q after a sweep", got)
	}
}

// TestTreeIsCancelled: a build that is given up is an error, not an empty tree.
func TestTreeIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	l := w.next(s)
	l.Shape = "another" // there is nothing to build on
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.c.fillTree(ctx, s, &l, w.rootTree(s, l), scratch(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
}
