package quarantine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/lfs"
)

// maxPointers bounds the small files that are read: some 200 MB.
const maxPointers = 200_000

// Pointers returns the LFS pointers among the new files. The objects that they stand for are not
// in the quarantine, and are not pushed.
func (t *Taken) Pointers(ctx context.Context) (list []lfs.Pointer, err error) {
	if t.Objects == 0 {
		return nil, nil
	}
	var ids strings.Builder
	n := 0
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Stdin: t.wants()}, "rev-list", "--objects", "--no-object-names",
		fmt.Sprintf("--filter=combine:object:type=blob+blob:limit=%d", lfs.MaxPointer), "--stdin")
	err = t.git.EachRecord(ctx, c, '\n', func(id string) error {
		if n++; n > maxPointers {
			return refuse(TooLarge, "the new commits have more than %d small files", maxPointers)
		}
		ids.WriteString(id + "\n")
		return nil
	})
	if err != nil || n == 0 {
		return nil, t.incomplete(err)
	}
	c = t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Stdin: ids.String()}, "cat-file", "--batch")
	c.Talk = func(_ io.WriteCloser, stdout io.Reader) error {
		r := bufio.NewReader(stdout)
		for range n {
			data, blob, err := readObject(r)
			if err != nil {
				return err
			}
			if p, ok := lfs.Parse(data); ok && blob {
				list = append(list, p)
			}
		}
		_, err := io.Copy(io.Discard, r)
		return err
	}
	_, err = t.git.Run(ctx, c)
	return list, localError(err)
}

// RefusePointers returns the error for new pointers whose objects the remote may not have.
func RefusePointers(list []lfs.Pointer) *Refusal {
	return refuse(Unusable, "the commits add %d LFS pointers whose objects are not pushed, such as %s: "+
		"push the objects first (git lfs push, where the remote can be reached), and then the commits with without_lfs", len(list), list[0].OID)
}

// readObject reads one object of git cat-file --batch. Of a larger object than a pointer it
// returns no data.
func readObject(r *bufio.Reader) (data []byte, blob bool, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, false, err
	}
	var id, kind string
	var size int64
	if _, err := fmt.Sscanf(line, "%s %s %d\n", &id, &kind, &size); err != nil || !gitref.IsObjectID(id) || size < 0 {
		return nil, false, fmt.Errorf("cat-file: unexpected line %.100q", line)
	}
	if size < lfs.MaxPointer {
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
