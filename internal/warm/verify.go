package warm

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// maxDepth limits the descriptors that a copy of a layer needs, two for each level. A
// node_modules has some 30 levels; the kernel accepts no path with more than some 2,000.
const maxDepth = 256

// maxLinked limits the memory for files with several names, because a container can make
// millions of them.
const maxLinked = 1 << 18

var errLinked = errors.New("a file in it has a hard link outside, through which it could be changed")

// verify walks a directory that a container has written. It returns the size of everything
// in it, or an error if the directory can't be a layer.
func verify(ctx context.Context, path string) (disk.Size, error) {
	v := &verifier{links: make(map[uint64]uint64)}
	if err := disk.Walk(ctx, path, v, nil); err != nil {
		return disk.Size{}, err
	}
	if v.err == nil && len(v.links) > 0 {
		v.err = errLinked
	}
	return v.size, v.err
}

type verifier struct {
	size  disk.Size
	links map[uint64]uint64 // how many names were not visited yet, by inode
	err   error             // the first
}

func (v *verifier) Visit(e disk.Entry) (enter bool) {
	if v.err != nil {
		return false
	}
	var st unix.Stat_t
	if st, v.err = stat(e.Dir, e.Name); v.err != nil {
		return false
	}
	kind := kind(&st)
	left, seen := v.links[st.Ino]
	if !seen {
		left = uint64(st.Nlink)
	}
	if !seen && kind != whiteout {
		v.size = v.size.Add(disk.Size{Bytes: st.Blocks * 512, Inodes: 1})
	}
	switch {
	case kind == unix.S_IFDIR, kind == whiteout: // overlayfs links all its whiteouts to one inode
	case left == 1:
		delete(v.links, st.Ino)
	default:
		v.links[st.Ino] = left - 1
	}
	if v.err = judge(e, kind); len(v.links) > maxLinked {
		v.err = fmt.Errorf("it has more than %d files with several names", maxLinked)
	}
	return v.err == nil && kind == unix.S_IFDIR
}

// judge returns an error if a layer must not have the file or directory at e.
func judge(e disk.Entry, kind uint32) error {
	var attr string // set if e is incomplete without a layer below
	switch kind {
	case unix.S_IFDIR:
		if e.Depth > maxDepth {
			return fmt.Errorf("it has more than %d levels of directories", maxDepth)
		}
		attr = redirectAttr
	case unix.S_IFREG:
		attr = metacopyAttr
	case unix.S_IFCHR, unix.S_IFBLK:
		return fmt.Errorf("%q in it is a device", e.Name)
	default:
		return nil
	}
	_, ok, err := attribute(below(e.Dir, e.Name), attr)
	if ok {
		return fmt.Errorf("%q in it is incomplete without a layer below", e.Name)
	}
	return err
}

func (v *verifier) Leave(disk.Entry) {}

func (v *verifier) Skip(e disk.Entry, err error) {
	if v.err == nil {
		v.err = fmt.Errorf("%q: %w", e.Name, err)
	}
}
