package checkout

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/lfs"
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

// move moves the checkout in c.Dir: it makes the next layer, and replaces c.Dir by what an
// overlay of the two shows.
func (g tester) move(ctx context.Context, c Spec, from string) (Found, error) {
	next := c
	next.Below, next.Dir = []string{c.Dir}, c.Dir+".next"
	if err := os.MkdirAll(filepath.Join(next.Dir, ".git"), 0o755); err != nil {
		return Found{}, err
	}
	defer os.RemoveAll(next.Dir)
	found, err := Move(ctx, g.Git, next, from)
	if err != nil {
		return found, err
	}
	return found, withOverlay([]string{next.Dir, c.Dir}, c.Dir+".tree", func(tree string) error {
		merged := c.Dir + ".merged"
		if _, err := testgit.Run(exec.Command("cp", "-a", tree, merged)); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(c.Dir), os.Rename(merged, c.Dir))
	})
}

// withOverlay calls f while an overlay of layers, topmost first, is mounted at the new
// directory target.
func withOverlay(layers []string, target string, f func(tree string) error) (err error) {
	upper, work := target+".upper", target+".work"
	for _, dir := range []string{target, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := overlay.Mount(overlay.Spec{Lower: layers, Upper: upper, Work: work, Target: target}); err != nil {
		return err
	}
	defer func() {
		free, detachErr := overlay.Detach(target)
		if detachErr == nil {
			detachErr = free()
		}
		err = errors.Join(err, detachErr)
	}()
	return f(target)
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
