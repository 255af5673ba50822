package checkout

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/lfs"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

// TestMain lets the test binary be the program that checks out.
func TestMain(m *testing.M) {
	ServeJob()
	os.Exit(m.Run())
}

// fetcher owns the stores of these tests: a uid that nobody else runs as.
const fetcher = 64125

// tester is a Git and the root filesystem that it works in; empty: the machine's.
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

// newGit returns a Git of the machine.
func newGit(t testing.TB) tester {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	return newGitWith(t, git.Config{Program: program})
}

func newGitWith(t testing.TB, c git.Config) tester {
	t.Helper()
	c.UID, c.GID, c.Self = fetcher, fetcher, cmp.Or(c.Self, testroot.Self(c.Root))
	g, err := git.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tester{g, c.Root}
}

// withBothGits runs a test with the machine's git and with the one that is shipped.
func withBothGits(t *testing.T, f func(t *testing.T, g tester)) {
	t.Run("machine", func(t *testing.T) { f(t, newGit(t)) })
	t.Run("rootfs", func(t *testing.T) { f(t, newGitWith(t, git.Config{Program: "/usr/bin/git", Root: testroot.New(t)})) })
}

// newTrees makes an empty store for commits.
func newTrees(t *testing.T, g tester) testgit.Trees {
	t.Helper()
	return testgit.Trees{T: t, Store: store(t, g)}
}

// newSpec is of a checkout in a new directory.
func newSpec(t *testing.T, g tester, w testgit.Trees, commit string) Spec {
	t.Helper()
	return Spec{Store: w.Store, Commit: commit, Dir: checkoutDir(t, testgit.Scratch(t, g.root), "x")}
}

// store makes an empty store.
func store(t *testing.T, g tester) string {
	t.Helper()
	dir := testgit.Owned(t, g.root, fetcher)
	if err := g.InitStore(t.Context(), dir, git.SHA1); err != nil {
		t.Fatal(err)
	}
	return dir
}
