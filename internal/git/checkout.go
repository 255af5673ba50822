package git

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
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
	_, err := g.run(ctx, g.worktree(c, "check out "+c.Commit,
		"-c", "checkout.workers="+strconv.Itoa(max(1, min(runtime.NumCPU(), 8))),
		"read-tree", "-m", "-u", c.Commit))
	return err
}

// RefreshIndex makes the index of a checkout agree with the times of its files.
func (g *Git) RefreshIndex(ctx context.Context, c Checkout) error {
	_, err := g.run(ctx, g.worktree(c, "refresh the index of "+c.Commit,
		"update-index", "-q", "--refresh"))
	return err
}

func (g *Git) worktree(c Checkout, op string, args ...string) command {
	return command{
		op: op,
		args: append([]string{
			"--git-dir=" + c.Store, "--work-tree=" + c.Dir,
			"-c", "core.bare=false",
			"-c", "index.threads=true",
		}, args...),
		env: []string{"GIT_INDEX_FILE=" + filepath.Join(c.Dir, Index)},
		dir: c.Dir, uid: c.UID, gid: c.GID,
		read: []string{c.Store}, write: []string{c.Dir},
	}
}

// IndexEntries returns the number of entries in an index file
// (gitformat-index: "DIRC", version, count, each 32 bits, big endian).
func IndexEntries(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var header [12]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:4]) != "DIRC" {
		return 0, fmt.Errorf("%s: not an index", path)
	}
	return int(binary.BigEndian.Uint32(header[8:])), nil
}

// joinNotNil is errors.Join that keeps a lone error as it is.
func joinNotNil(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}
