package lfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitref"
)

// Pointer is a file of a checkout whose content is a git-lfs object.
type Pointer struct {
	Path gitref.Text
	OID  string // SHA-256 of the content, in hex
	Size int64  // of the content, bytes
}

// Text returns the file of a pointer as git-lfs's clean filter writes it.
func (p Pointer) Text() string {
	return fmt.Sprintf("version %s\noid sha256:%s\nsize %d\n", pointerVersions[0], p.OID, p.Size)
}

// A pointer has less than MaxPointer bytes, line ends and blank lines included (git-lfs,
// docs/spec.md): git-lfs takes what follows for the next request. Its three lines have at
// least MinPointer bytes.
const MaxPointer, MinPointer = 1024, 100

// pointerVersions are the versions that git-lfs reads, old ones included.
var pointerVersions = []string{
	"https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1", "http://git-media.io/v/2",
}

// pointerKeys are the keys of a pointer's lines, in this order.
var pointerKeys = []string{"version", "oid", "size"}

// Parse reads a pointer as git-lfs's smudge filter does, which gets the file after all of
// git's own conversions. So lines may end with CRLF, and blank lines and surrounding
// white space are allowed. ok is false if data is not a pointer: like git-lfs, callers
// must leave such a file alone. That includes pointers with extensions, because those are
// programs.
func Parse(data []byte) (p Pointer, ok bool) {
	p, extended, ok := parse(data)
	if !ok || extended {
		return Pointer{}, false
	}
	return p, true
}

// IsPointer reports whether git-lfs takes a file for a pointer, also with extensions, so that
// its clean filter leaves the file as it is.
func IsPointer(data []byte) bool {
	_, _, ok := parse(data)
	return ok && len(data) < MaxPointer
}

// Mentioned reports whether a .gitattributes may give files to git-lfs.
func Mentioned(attributes []byte) bool { return bytes.Contains(attributes, []byte("filter=lfs")) }

// extension is the key of a pointer's line about an extension.
var extension = regexp.MustCompile(`^ext-[0-9]-.`)

// parse reads a pointer, with extensions or without.
func parse(data []byte) (p Pointer, extended, ok bool) {
	values := make([]string, 0, len(pointerKeys))
	for line := range strings.SplitSeq(string(bytes.TrimSpace(data)), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		if len(values) == 1 && extension.MatchString(key) { // after the version
			extended = true
			continue
		}
		if len(values) == len(pointerKeys) || key != pointerKeys[len(values)] {
			return Pointer{}, false, false
		}
		values = append(values, value)
	}
	if len(values) != len(pointerKeys) || !slices.Contains(pointerVersions, values[0]) {
		return Pointer{}, false, false
	}
	oid, ok := strings.CutPrefix(values[1], "sha256:")
	size, err := strconv.ParseInt(values[2], 10, 64)
	if !ok || err != nil || size < 0 || len(oid) != 64 || !gitref.IsObjectID(oid) {
		return Pointer{}, false, false
	}
	return Pointer{OID: oid, Size: size}, extended, true
}

// Object returns the path of an object in a storage.
func Object(storage, oid string) string { return filepath.Join(storage, oid[:2], oid) }

// Has reports whether a storage has the complete object of p. An empty pointer needs no
// object, whatever its ID.
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

// Fill writes the objects of pointers into their files in the work tree dir, which keep
// owner and mode. The storage must have all of them.
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
	// The kernel copies the data, or shares the blocks if the filesystem can.
	n, err := to.ReadFrom(from)
	if err == nil && n != p.Size {
		err = fmt.Errorf("%d bytes, want %d", n, p.Size)
	}
	return errors.Join(err, to.Close())
}
