package warm

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// maxDepth bounds the descriptors that it takes to copy a layer. A node_modules
// has some 30 levels; paths with more than 2,000 can't be named.
const maxDepth = 256

// maxLinked bounds the memory for files with several names, of which a container
// can make millions.
const maxLinked = 1 << 18

// verify looks at all that is in a directory that a container has written, and
// says why it can't be a layer: empty if it can. The size is that of what it has
// seen.
func verify(ctx context.Context, path string) (size disk.Size, reason string, err error) {
	v := &verifier{links: make(map[uint64]uint64)}
	if err := disk.Walk(ctx, path, v, nil); err != nil {
		return disk.Size{}, "", err
	}
	if v.err != nil {
		return disk.Size{}, "", v.err
	}
	if v.reason == "" && len(v.links) > 0 {
		v.reason = "a file in it has a hard link elsewhere, through which it could be changed"
	}
	return v.size, v.reason, nil
}

type verifier struct {
	size   disk.Size
	links  map[uint64]uint64 // names still to be seen, by inode
	reason string
	err    error
}

func (v *verifier) Visit(e disk.Entry) bool {
	if v.err != nil || v.reason != "" {
		return false
	}
	st, err := stat(e.Dir, e.Name)
	if err != nil {
		v.err = err
		return false
	}
	dir := kind(&st) == unix.S_IFDIR
	left, seen := v.links[st.Ino]
	if !seen {
		left = uint64(st.Nlink)
	}
	if !seen && !isWhiteout(&st) {
		v.size = v.size.Add(disk.Size{Bytes: st.Blocks * 512, Inodes: 1})
	}
	switch {
	case dir, isWhiteout(&st): // overlayfs makes all its whiteouts links of one
	case left == 1:
		delete(v.links, st.Ino)
	default:
		v.links[st.Ino] = left - 1
	}
	if v.reason, v.err = judge(e, &st); len(v.links) > maxLinked {
		v.reason = fmt.Sprintf("more than %d files in it have several names", maxLinked)
	}
	return dir && v.reason == "" && v.err == nil
}

// judge says why what is at e can't be in a layer.
func judge(e disk.Entry, st *unix.Stat_t) (reason string, err error) {
	leans := "" // the attribute that would say so
	switch kind(st) {
	case unix.S_IFDIR:
		if e.Depth > maxDepth {
			return fmt.Sprintf("it is deeper than %d directories", maxDepth), nil
		}
		leans = redirectAttr
	case unix.S_IFREG:
		leans = metacopyAttr
	case unix.S_IFCHR, unix.S_IFBLK:
		if !isWhiteout(st) {
			return fmt.Sprintf("%q in it is a device", e.Name), nil
		}
	}
	if leans == "" {
		return "", nil
	}
	if _, ok, err := attribute(below(e.Dir, e.Name), leans); err != nil || ok {
		return fmt.Sprintf("%q in it leans on a layer below", e.Name), err
	}
	return "", nil
}

func (v *verifier) Leave(disk.Entry) {}

func (v *verifier) Skip(e disk.Entry, err error) {
	if v.err == nil {
		v.err = fmt.Errorf("%q: %w", e.Name, err)
	}
}
