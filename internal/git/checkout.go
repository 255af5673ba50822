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
	UID, GID uint32
}

// Index is where the index of a checkout lies below its directory.
const Index = ".git/index"

// Checkout writes the files of a commit into c.Dir and their index to
// c.Dir/.git/index. It runs as the tree's uid, in parallel.
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
		env: []string{"GIT_INDEX_FILE=" + filepath.Join(c.Dir, Index)},
		dir: c.Dir, uid: c.UID, gid: c.GID,
		read: []string{c.Store}, write: []string{c.Dir},
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
