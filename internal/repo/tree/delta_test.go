package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testworld"
)

// next pushes a commit that deletes a file, and fetches it. It returns the record that the
// commit's tree will have; the tree is not built yet.
func (w *world) next(s Spec) meta.Layer {
	w.T.Helper()
	w.Advance(time.Minute)
	w.Commit("main", gitserver.Change{Path: "pushed", Content: "x"}, gitserver.Change{Path: "README.md", Delete: true})
	var r meta.Resolution
	if err := w.c.repo.Snapshot(w.T.Context(), s.Source, func(snap *remote.Snapshot) error { r = snap.Resolution; return nil }); err != nil {
		w.T.Fatal(err)
	}
	shape := w.c.shapeOf(s)
	id := treeID(shape, r.Commit)
	return meta.Layer{Kind: meta.Tree, ID: id, Chain: []string{id}, Commit: r.Commit, Shape: shape, Store: s.History.Name()}
}

// wantClean checks that a tree of the commit that next pushed has length layers, and that
// git finds no change in it.
func (w *world) wantClean(co *held, length int) {
	w.T.Helper()
	dir := w.Mount(co.Lower, 0)
	if got := testgit.Git(w.T, dir, "status", "--porcelain"); got != "" || len(co.Tree.Chain) != length {
		w.T.Errorf("status %q of %d layers, want %d and no change", got, len(co.Tree.Chain), length)
	}
	if _, err := os.Lstat(filepath.Join(dir, "README.md")); !os.IsNotExist(err) {
		w.T.Errorf("lstat of a file that the commit deletes: %v", err)
	}
}

// TestBaseStaysWhileBuiltOn checks that the base of a tree stays until the tree is
// published, even if it is collected or evicted meanwhile.
func TestBaseStaysWhileBuiltOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	co := w.prepare(s)
	co.Release()
	c, next := w.c, w.next(s)
	l, err := c.layer(t.Context(), meta.Tree, next.ID, func(ctx context.Context, dir string) (meta.Layer, error) {
		l := next
		err := c.buildTree(ctx, s, &l, dir)
		if err := c.collect(t.Context()); err != nil { // no ref is at the base's commit any more
			t.Error(err)
		}
		if gone, stayed, err := c.layers.Evict([]string{co.Tree.ID}, Kinds...); gone != 0 || stayed != 1 || err != nil {
			t.Errorf("evict the base of a build: %d gone, %d stayed, %v", gone, stayed, err)
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

// TestBaseIsGone checks that a tree is built whole, and stands on no other, if its base
// can't be used.
func TestBaseIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
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

// TestBaseIsOfAnotherStore checks that a tree is built on one of another store if its own
// store has that commit, and otherwise on an older one or whole.
func TestBaseIsOfAnotherStore(t *testing.T) {
	t.Parallel()
	testworld.WithBothGits(t, testBaseIsOfAnotherStore)
}

func testBaseIsOfAnotherStore(t *testing.T, system string) {
	w := newWorld(t, system)
	full, shallow := w.spec("ref", "main"), w.spec("ref", "main", "depth", "1")
	w.Push("main") // a commit of no other branch and no tag
	for _, step := range []struct {
		name   string
		s      Spec
		length int // of the chain
	}{
		{"the first", full, 1},
		{"a store of one commit, which lacks the first one", shallow, 1},
		{"a store of all commits has both", full, 2},
		{"a store of one commit has its own", shallow, 2},
	} {
		co := w.prepare(step.s)
		if len(co.Tree.Chain) != step.length {
			t.Errorf("%s: a chain of %d, want %d", step.name, len(co.Tree.Chain), step.length)
		}
		if got := testgit.Git(t, w.Mount(co.Lower, 0), "status", "--porcelain"); got != "" {
			t.Errorf("%s: status %q", step.name, got)
		}
		co.Release()
		w.Advance(time.Minute)
		w.Push("main")
	}
}

// TestTreeIsCancelled checks that a cancelled build is an error, not an empty tree.
func TestTreeIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	l := w.next(s)
	l.Shape = "another" // so that no base exists
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.c.buildTree(ctx, s, &l, testdir.New(t, "tree")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
