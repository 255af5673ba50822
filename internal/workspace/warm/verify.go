package warm

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// maxDepth limits the descriptors that a copy of a layer needs, two for each level. A
// node_modules has some 30 levels; the kernel accepts no path with more than some 2,000.
const maxDepth = 256

// maxLinked limits the memory for files with several names, because a container can make
// millions of them.
const maxLinked = 1 << 18

var (
	errLinked = errors.New("a file in it has a hard link outside, through which it could be changed")
	errDeep   = fmt.Errorf("it has more than %d levels of directories", maxDepth)
)

// verify walks a directory that a container has written, and gives files without data the data of the
// layer below. It returns the size of everything in it, or an error if the directory can't be a layer, and calls note for
// each inode that is no whiteout. s shows the directory at rel.
func verify(ctx context.Context, path string, s *shown, rel string, note func(*unix.Stat_t)) (disk.Size, error) {
	v := &verifier{ctx: ctx, shown: s, names: []string{rel}, links: make(map[uint64]uint64), note: note}
	if err := disk.Walk(ctx, path, v, s.pace); err != nil {
		return disk.Size{}, err
	}
	if v.err == nil && len(v.links) > 0 {
		v.err = errLinked
	}
	return v.size, v.err
}

type verifier struct {
	ctx   context.Context
	shown *shown
	names []string // of the directory, of the current entry's parents, and of the entry
	size  disk.Size
	links map[uint64]uint64 // how many names were not visited yet, by inode
	note  func(*unix.Stat_t)
	err   error // the first
}

func (v *verifier) Visit(e disk.Entry) (enter bool) {
	if v.err != nil {
		return false
	}
	var st unix.Stat_t
	if st, v.err = upfile.Stat(e.Dir, e.Name); v.err != nil {
		return false
	}
	kind := upfile.Kind(&st)
	if e.Depth > 0 && e.Depth <= maxDepth {
		v.names = append(v.names[:e.Depth], e.Name)
	}
	if kind == unix.S_IFREG {
		if st, v.err = v.complete(e, st); v.err != nil {
			return false
		}
	}
	left, seen := v.links[st.Ino]
	if !seen {
		left = uint64(st.Nlink)
	}
	if !seen && kind != upfile.Whiteout {
		v.size = v.size.Add(disk.Size{Bytes: st.Blocks * 512, Inodes: 1})
		v.note(&st)
	}
	switch {
	case kind == unix.S_IFDIR, kind == upfile.Whiteout: // overlayfs links all its whiteouts to one inode
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

// complete completes a file without data, and describes it again.
func (v *verifier) complete(e disk.Entry, st unix.Stat_t) (unix.Stat_t, error) {
	_, ok, err := upfile.Attribute(upfile.Below(e.Dir, e.Name), upfile.MetacopyAttr)
	if err != nil || !ok {
		return st, err
	}
	if e.Depth > maxDepth {
		return st, errDeep
	}
	if err := complete(v.ctx, e, &st, v.shown, path.Join(v.names...)); err != nil {
		return st, fmt.Errorf("%q in it is incomplete without a layer below: %w", e.Name, err)
	}
	return upfile.Stat(e.Dir, e.Name)
}

// maxAhead is how far in the future the time of a file may be to count: then the clock was ahead when the file was made, by
// seconds or, if it had the time of another zone, by hours. Later times are of a tool's choice, as those in an archive, and
// would keep the path from all others until then. A container that sets times spoils nothing but its own head.
const maxAhead = 24 * time.Hour

// note notes the owner and the time of an entry that is no whiteout.
func (p *promotion) note(st *unix.Stat_t) {
	p.found.note(st)
	if t := time.Unix(st.Mtim.Unix()); t.After(p.builtAt) && t.Before(p.latest) {
		p.builtAt = t
	}
}

// judge returns an error if a layer must not have the file or directory at e.
func judge(e disk.Entry, kind uint32) error {
	switch kind {
	case unix.S_IFDIR:
		if e.Depth > maxDepth {
			return errDeep
		}
		_, ok, err := upfile.Attribute(upfile.Below(e.Dir, e.Name), upfile.RedirectAttr)
		if ok {
			return fmt.Errorf("%q in it is incomplete without a layer below", e.Name)
		}
		return err
	case unix.S_IFCHR, unix.S_IFBLK:
		return fmt.Errorf("%q in it is a device", e.Name)
	}
	return nil
}

func (v *verifier) Leave(disk.Entry) {}

func (v *verifier) Skip(e disk.Entry, err error) {
	if v.err == nil {
		v.err = fmt.Errorf("%q: %w", e.Name, err)
	}
}
