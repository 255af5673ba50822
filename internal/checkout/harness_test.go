package checkout

import (
	"context"
	"os"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/lfs"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testworld"
)

// TestMain lets the test binary be the program that checks out.
func TestMain(m *testing.M) {
	ServeJob()
	os.Exit(m.Run())
}

// fetcher is the uid of the stores in these tests, which no other process has.
const fetcher = 64125

// tester is a Git and the root filesystem that it runs in; empty: the machine's.
type tester struct {
	*git.Git
	root string
}

func (g tester) make(ctx context.Context, c Spec) (Found, error) { return Make(ctx, g.Git, c) }

func (g tester) move(ctx context.Context, c Spec, from, tree string) (Found, error) {
	return Move(ctx, g.Git, c, from, tree)
}

func (g tester) fill(ctx context.Context, c Spec, storage string, pointers []lfs.Pointer) error {
	return Fill(ctx, g.Git, c, storage, pointers)
}

// newGit returns a tester with the machine's git.
func newGit(t testing.TB) tester {
	t.Helper()
	return newGitWith(t, git.Config{})
}

func newGitWith(t testing.TB, c git.Config) tester {
	t.Helper()
	c.UID, c.GID = fetcher, fetcher
	return tester{testworld.Git(t, c), c.Root}
}

// withBothGits runs a test with the machine's git, and with the one that is shipped.
func withBothGits(t *testing.T, f func(t *testing.T, g tester)) {
	testworld.WithBothGits(t, func(t *testing.T, system string) { f(t, newGitWith(t, git.Config{Root: system})) })
}

// newTrees makes an empty store for commits.
func newTrees(t *testing.T, g tester) testgit.Trees {
	t.Helper()
	return testgit.Trees{T: t, Store: store(t, g)}
}

// newSpec returns the Spec of a checkout into a new directory.
func newSpec(t *testing.T, g tester, w testgit.Trees, commit string) Spec {
	t.Helper()
	return Spec{Store: w.Store, Commit: commit, Dir: checkoutDir(t, testgit.Scratch(t, g.root), "x")}
}

// store makes an empty store.
func store(t *testing.T, g tester) string {
	t.Helper()
	return testgit.Store(t, g.root, fetcher, gitref.SHA1)
}
