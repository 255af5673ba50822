package lfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/git"
)

// Pointer is a file of a checkout whose content git-lfs keeps elsewhere.
type Pointer struct {
	Path git.Text
	OID  string // SHA-256 of the content, in hex
	Size int64  // of the content, bytes
}

// A pointer has less than MaxPointer bytes, line ends and blank lines included (git-lfs,
// docs/spec.md): of more, git-lfs reads the first, and takes the rest for another request.
// Its three lines have at least MinPointer.
const MaxPointer, MinPointer = 1024, 100

// pointerVersions are of pointers; git-lfs still reads the old ones.
var pointerVersions = []string{
	"https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1", "http://git-media.io/v/2",
}

// pointerKeys begin the lines of a pointer, in this order.
var pointerKeys = []string{"version", "oid", "size"}

// Parse reads a pointer as git-lfs's smudge filter does, which is given the
// file as it is in the work tree, after all conversions of git's own. So its lines
// may end with CRLF, there may be blank ones, and white space around all of it. A
// file that is not a pointer is not an error: git-lfs leaves it as it is. This does
// so also with pointers that have extensions, which are programs.
func Parse(data []byte) (p Pointer, ok bool) {
	values := make([]string, 0, len(pointerKeys))
	for line := range strings.SplitSeq(string(bytes.TrimSpace(data)), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		if len(values) == len(pointerKeys) || key != pointerKeys[len(values)] {
			return Pointer{}, false
		}
		values = append(values, value)
	}
	if len(values) != len(pointerKeys) || !slices.Contains(pointerVersions, values[0]) {
		return Pointer{}, false
	}
	oid, ok := strings.CutPrefix(values[1], "sha256:")
	size, err := strconv.ParseInt(values[2], 10, 64)
	if !ok || err != nil || size < 0 || len(oid) != 64 || !git.IsObjectID(oid) {
		return Pointer{}, false
	}
	return Pointer{OID: oid, Size: size}, true
}

// Object is where a storage keeps an object.
func Object(storage, oid string) string { return filepath.Join(storage, oid[:2], oid) }

// Has reports whether a storage has an object in full. A pointer of no bytes
// needs none, whatever its ID.
func Has(storage string, p Pointer) (bool, error) {
	if p.Size == 0 {
		return true, nil
	}
	info, err := os.Lstat(Object(storage, p.OID))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() == p.Size, err
}

// Fill writes the contents of pointers, all of which the storage has, into the files of a
// work tree, which keep their owner and mode.
func Fill(dir, storage string, pointers []Pointer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, p := range pointers {
		if err := fill(root, storage, p); err != nil {
			return fmt.Errorf("write %q from LFS object %s: %w", p.Path, p.OID, err)
		}
	}
	return nil
}

func fill(root *os.Root, storage string, p Pointer) error {
	if p.Size == 0 {
		return root.WriteFile(string(p.Path), nil, 0)
	}
	from, err := os.Open(Object(storage, p.OID))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(string(p.Path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	// The kernel copies, and where the filesystem can, shares the blocks.
	n, err := to.ReadFrom(from)
	if err == nil && n != p.Size {
		err = fmt.Errorf("%d bytes, want %d", n, p.Size)
	}
	return errors.Join(err, to.Close())
}
