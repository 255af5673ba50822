package git

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
)

// Checkout is one full checkout from a store into an empty directory.
type Checkout struct {
	Store    string
	Commit   string
	Dir      string // belongs to UID and GID, and so will all that is written
	GitDir   string // where the index goes; empty: Dir/.git
	UID, GID uint32
}

func (c Checkout) gitDir() string {
	if c.GitDir == "" {
		return filepath.Join(c.Dir, ".git")
	}
	return c.GitDir
}

func (c Checkout) index() string { return filepath.Join(c.gitDir(), "index") }

// Checkout writes the files of a commit into c.Dir and their index into c.GitDir.
// It runs as the tree's uid, in parallel.
func (g *Git) Checkout(ctx context.Context, c Checkout) error {
	_, err := g.run(ctx, command{
		op: "check out " + c.Commit,
		args: []string{
			"--git-dir=" + c.Store, "--work-tree=" + c.Dir,
			"-c", "core.bare=false",
			"-c", "index.version=2",
			"-c", "checkout.workers=" + strconv.Itoa(max(1, min(runtime.NumCPU(), 8))),
			"read-tree", "-m", "-u", c.Commit,
		},
		env: []string{"GIT_INDEX_FILE=" + c.index()},
		dir: c.Dir, uid: c.UID, gid: c.GID,
		read: []string{c.Store}, write: []string{c.Dir, c.gitDir()},
	})
	return err
}

// joinNotNil is errors.Join that keeps a lone error as it is.
func joinNotNil(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}
