package quarantine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

// maxPointers bounds the small files that are read, some 200 MB, for each GiB of PUSH_MAX_SIZE.
const maxPointers = 200_000

// Pointers calls f with each LFS pointer among the new files, without those that the layer has: the remote has had
// their objects, as for a revert. The objects that the others stand for are not in the quarantine: they are neither
// pushed nor in a bundle. If f returns an error, Pointers returns that.
func (t *Taken) Pointers(ctx context.Context, f func(lfs.Pointer) error) error {
	if t.Objects == 0 {
		return nil
	}
	return t.withLists(ctx, func() error { return t.pointers(ctx, f) })
}

func (t *Taken) pointers(ctx context.Context, f func(lfs.Pointer) error) error {
	var files []treeFile
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Input: t.wants()}, "rev-list", "--objects", "--no-object-names",
		fmt.Sprintf("--filter=combine:object:type=blob+blob:limit=%d", lfs.MaxPointer), "--stdin")
	err := t.git.EachRecord(ctx, c, '\n', func(id string) error {
		if files = append(files, treeFile{id: strings.Clone(id)}); len(files) > t.most(maxPointers) {
			return refuse(TooLarge, "the new commits have more than %d small files (setting PUSH_MAX_SIZE)", t.most(maxPointers))
		}
		return nil
	})
	if err == nil {
		files, err = t.onlyNew(ctx, files)
	}
	if err != nil || len(files) == 0 {
		return t.incomplete(err)
	}
	c = t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Input: idsOf(files)}, "cat-file", "--batch")
	c.Talk = func(_ context.Context, _ io.WriteCloser, stdout io.Reader) error {
		r := bufio.NewReader(stdout)
		for range files {
			data, blob, err := readObject(r, lfs.MaxPointer)
			if err != nil {
				return err
			}
			if p, ok := lfs.Parse(data); ok && blob {
				if err := f(p); err != nil {
					return err
				}
			}
		}
		_, err := io.Copy(io.Discard, r)
		return err
	}
	_, err = t.git.Run(ctx, c)
	return localError(err)
}

// RefusePointers returns the error for n new pointers, such as p, whose objects the remote may not have.
func RefusePointers(n int, p lfs.Pointer) *Refusal {
	return refuse(Unusable, "the commits add %d LFS pointers whose objects are neither pushed nor in a bundle, such as %s: "+
		"push the objects first (git lfs push, where the remote can be reached), and then repeat this with --without-lfs", n, p.OID)
}

// readObject reads one object of git cat-file --batch. Of one of max bytes or more it returns no
// data.
func readObject(r *bufio.Reader, max int64) (data []byte, blob bool, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, false, err
	}
	var id, kind string
	var size int64
	if _, err := fmt.Sscanf(line, "%s %s %d\n", &id, &kind, &size); err != nil || !gitref.IsObjectID(id) || size < 0 {
		return nil, false, fmt.Errorf("cat-file: unexpected line %.100q", line)
	}
	if size < max {
		data = make([]byte, size)
		_, err = io.ReadFull(r, data)
	} else {
		_, err = io.CopyN(io.Discard, r, size)
	}
	if err == nil {
		_, err = r.ReadByte() // a line feed
	}
	return data, kind == "blob", err
}
