package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Checkout is one checkout from a store into a directory that holds nothing but
// an empty .git, if that, or the checkout of another commit.
type Checkout struct {
	Store    string
	Commit   string
	Onto     bool // the checkout of another commit, of the same cone, is there: it is moved
	Cone     Cone
	Dir      string // belongs to UID and GID, and so will all that is written
	GitDir   string // an empty directory that belongs to them too; empty: Dir/.git
	UID, GID uint32
}

// Index and Patterns are what a checkout leaves in its GitDir; the second one only
// if it has a cone.
const (
	Index    = "index"
	Patterns = "info/sparse-checkout"
)

func (c Checkout) gitDir() string {
	if c.GitDir == "" {
		return filepath.Join(c.Dir, ".git")
	}
	return c.GitDir
}

// parallelFrom is from how many files on a checkout is parallel. With git's own 100
// an update of as many takes 12 ms instead of 9: starting workers costs more than
// they save.
const parallelFrom = "300"

// Checkout writes the files of a commit into c.Dir, their index and the patterns
// of c.Cone. All contents must be in the store. It runs as the tree's uid, in
// parallel, on a repository of its own that borrows the store's objects: what
// checkouts of different shapes tell git does not meet.
func (g *Git) Checkout(ctx context.Context, c Checkout) (err error) {
	defer func() { err = joinNotNil(err, c.removeRepository()) }()
	if err := c.makeRepository(); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	sparse := strconv.FormatBool(c.Cone != nil)
	objects := filepath.Join(c.Store, "objects")
	write := []string{c.Dir, c.gitDir()}
	_, err = g.run(ctx, command{
		op: "check out " + c.Commit,
		args: []string{
			"--git-dir=" + c.gitDir(), "--work-tree=" + c.Dir,
			"-c", "core.bare=false",
			"-c", "core.sparseCheckout=" + sparse, "-c", "core.sparseCheckoutCone=" + sparse,
			"-c", "index.version=2", "-c", "index.sparse=false",
			"-c", "checkout.workers=" + strconv.Itoa(max(1, min(runtime.NumCPU(), 8))),
			"-c", "checkout.thresholdForParallelism=" + parallelFrom,
			// With one tree also where there is a checkout: the index says what is there.
			"read-tree", "-m", "-u", c.Commit,
		},
		env: []string{"GIT_OBJECT_DIRECTORY=" + objects},
		dir: c.Dir, uid: c.UID, gid: c.GID,
		read: []string{objects}, write: write,
		// git does not say why it can't write a file; it tries all the others, and
		// fails in the end, which nobody waits for where the disk is full.
		stderr: func(line string) {
			if strings.HasPrefix(line, "error: unable to write file") && full(write) {
				stop(syscall.ENOSPC)
			}
		},
	})
	return err
}

// repository is what makes c.GitDir a repository for the time of a checkout.
var repository = []string{"HEAD", "config", "refs"}

func (c Checkout) makeRepository() error {
	top := c.gitDir()
	config := "[core]\n\trepositoryformatversion = 0\n"
	if Format(c.Commit) == SHA256 {
		config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(top, "HEAD"), []byte("ref: refs/heads/none\n"), 0o644),
		os.WriteFile(filepath.Join(top, "config"), []byte(config), 0o644),
		os.Mkdir(filepath.Join(top, "refs"), 0o755),
	)
	if err != nil || c.Cone == nil || c.Onto {
		return err // the patterns are there
	}
	patterns := filepath.Join(top, Patterns)
	return errors.Join(
		os.Mkdir(filepath.Dir(patterns), 0o755),
		os.WriteFile(patterns, c.Cone.Patterns(), 0o644),
		os.Chown(filepath.Dir(patterns), int(c.UID), int(c.GID)),
		os.Chown(patterns, int(c.UID), int(c.GID)),
	)
}

func (c Checkout) removeRepository() error {
	var errs []error
	for _, name := range repository {
		errs = append(errs, os.RemoveAll(filepath.Join(c.gitDir(), name)))
	}
	return errors.Join(errs...)
}

// Format tells the format of a full object ID, SHA1 or SHA256, by its length.
func Format(id string) string {
	if len(id) == 2*sha256.Size {
		return SHA256
	}
	return SHA1
}

// joinNotNil is errors.Join that keeps a lone error as it is.
func joinNotNil(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}
