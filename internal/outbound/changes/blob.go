package changes

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/helmdeck/repos/internal/git/gitref"
)

// maxHashed bounds what a Hasher reads, in bytes with holes.
const maxHashed = 4 << 30

// Hasher names files as git does, without a conversion of their contents. It is not safe for concurrent use.
type Hasher struct {
	Source
	Format string // the hash function of the repository's objects
	read   int64
}

var errHashed = fmt.Errorf("the changed files have more than %d bytes", int64(maxHashed))

// Entry returns the mode and the ID that git gives to a file or a link of After. Of one that is not there the mode is
// 000000. The error is also that of a file that can't be read.
func (h *Hasher) Entry(ctx context.Context, path string) (mode, id string, err error) {
	c, err := open(h.After.Root, path)
	if absent(err) {
		return "000000", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", quoted(path), err)
	}
	defer c.Close()
	if c.size > maxHashed-h.read { // a sparse file may have nearly 8 EiB, with which a sum is negative
		return "", "", errHashed
	}
	h.read += c.size
	var sum hash.Hash = sha1.New()
	if h.Format == gitref.SHA256 {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "blob %d\x00", c.size)
	n, err := io.Copy(&stoppable{ctx, sum}, io.LimitReader(c.Reader, c.size))
	if err == nil && n < c.size {
		err = errors.New("it was changed while it was read: run it again")
	}
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", quoted(path), err)
	}
	return c.gitMode(), hex.EncodeToString(sum.Sum(nil)), nil
}
