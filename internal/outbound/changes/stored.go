package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/helmdeck/repos/internal/repo/lfs"
)

const (
	// maxPointed bounds the contents of git-lfs that are hashed for a patch, in bytes with holes: that takes seconds.
	maxPointed = 1 << 30
	// maxConverted bounds the files that are read to be converted, whether they are in the patch then or not.
	maxConverted = 2 * maxDiff
)

// The reasons why a file that git converts is left out of a patch.
const (
	exportHasIt   = ": docker repos export has the file"
	whyEncoding   = "its working-tree-encoding is not converted here" + exportHasIt
	whyNotEncoded = "it is not in the encoding that its working-tree-encoding names" + exportHasIt
	whyLFS        = "git-lfs keeps its content, of which a patch would have only the name" + exportHasIt
	whyReplaced   = "it was changed while it was read: run it again"
)

// store puts what git stores for the contents of a change in their place. n is its number. why, if it is not empty, is the
// reason why the change can't be in a patch. The error is that of the context.
func (s *stream) store(ctx context.Context, n int, old, now *content) (why string, err error) {
	from, to := s.patch.conversion(0, n, old.kind), s.patch.conversion(1, n, now.kind)
	if from.encoding == otherEncoding || to.encoding == otherEncoding {
		return whyEncoding, nil
	}
	if to.lfs && now.size >= lfs.MaxPointer && !s.sizes[now.size] && !(from.lfs && old.size == now.size) {
		return whyLFS, nil // without a look at it
	}
	if from.lfs {
		if why, err = s.pointBefore(ctx, n, old); why != "" || err != nil {
			return why, err
		}
	}
	if to.lfs {
		pointer, why, err := s.point(ctx, now)
		if why != "" || err != nil {
			return why, err
		}
		// The repository has the contents that were there before: a file may be moved, or get another mode. A patch can't
		// bring it others, and git-lfs would fail to write such a file, and git apply with it.
		if pointer != "" && !s.pointers[pointer] {
			return whyLFS, nil
		}
	}
	if max(old.size, now.size) > maxDiffFile {
		return fmt.Sprintf("it has more than %d bytes", maxDiffFile), nil
	}
	if !from.changesText() && !to.changesText() {
		return "", nil
	}
	if from.encoding == utf8Bytes && old.sniff() || to.encoding == utf8Bytes && now.sniff() {
		return "", nil // it is binary, and not in the patch either
	}
	if s.reading -= old.size + now.size; s.reading < 0 {
		return fmt.Sprintf("the files of the patch that git converts have more than %d bytes", maxConverted), nil
	}
	return clean(old, now, from, to), nil
}

// clean converts the contents of a change that attributes don't give to git-lfs.
func clean(old, now *content, from, to conversion) (why string) {
	before, why := old.read()
	if why != "" {
		return why
	}
	after, why := now.read()
	if why != "" {
		return why
	}
	before, ok := from.cleanBefore(before)
	if ok {
		after, ok = to.cleanAfter(after, before)
	}
	if !ok {
		return whyNotEncoded
	}
	old.become(before)
	now.become(after)
	return ""
}

// findDeleted notes the contents of git-lfs that were deleted, because files that were added may have them.
func (s *stream) findDeleted(ctx context.Context, set *Set, ignored bool) error {
	if !slices.ContainsFunc(s.patch.stored[1], func(c conversion) bool { return c.lfs }) {
		return nil
	}
	n := -1
	for c, err := range set.inPatch(ctx, ignored, nil) {
		if err != nil {
			return err
		}
		if n++; c.Kind != Deleted || !s.patch.conversion(0, n, file).lfs {
			continue
		}
		old, err := open(s.src.Before.Root, c.Path)
		if err != nil {
			continue // change says so
		}
		if old.kind == file {
			_, err = s.pointBefore(ctx, n, &old)
		}
		old.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// pointBefore is point for a content that the repository has. n is the number of the change.
func (s *stream) pointBefore(ctx context.Context, n int, c *content) (why string, err error) {
	if pointer, ok := s.deleted[n]; ok {
		c.become([]byte(pointer))
		return "", nil
	}
	size := c.size
	pointer, why, err := s.point(ctx, c)
	if pointer != "" {
		s.pointers[pointer], s.sizes[size], s.deleted[n] = true, true, pointer
	}
	return why, err
}

// point puts the pointer of git-lfs in the place of a content, and returns it. An empty file and a pointer stay as they
// are; pointer is empty then. why is the reason if the pointer can't be made. The error is that of the context.
func (s *stream) point(ctx context.Context, c *content) (pointer, why string, err error) {
	if c.size < lfs.MaxPointer {
		data, why := c.read()
		if why != "" {
			return "", why, nil
		}
		c.become(data)
		if len(data) == 0 || lfs.IsPointer(data) {
			return "", "", nil
		}
	}
	if c.size > s.hashing {
		return "", fmt.Sprintf("the files of git-lfs in the patch have more than %d bytes", maxPointed) + exportHasIt, nil
	}
	s.hashing -= c.size
	sum := sha256.New()
	n, err := io.Copy(&stoppable{ctx, sum}, io.LimitReader(c.Reader, c.size))
	switch {
	case ctx.Err() != nil:
		return "", "", context.Cause(ctx)
	case err != nil:
		return "", "it can't be read: " + errorText(err), nil
	case n < c.size:
		return "", whyReplaced, nil
	}
	pointer = lfs.Pointer{OID: hex.EncodeToString(sum.Sum(nil)), Size: c.size}.Text()
	c.become([]byte(pointer))
	return pointer, "", nil
}

// read returns a content of the size that it had when it was opened. why is the reason if it can't be read.
func (c *content) read() (data []byte, why string) {
	if c.kind == none {
		return nil, ""
	}
	data = make([]byte, c.size)
	switch n, err := io.ReadFull(c.Reader, data); {
	case readError(err) != nil:
		return nil, "it can't be read: " + errorText(err)
	case int64(n) < c.size:
		return nil, whyReplaced
	}
	return data, ""
}

// become puts other bytes in the place of a content.
func (c *content) become(data []byte) {
	if c.kind != none {
		c.Reader, c.size = bytes.NewReader(data), int64(len(data))
	}
}
