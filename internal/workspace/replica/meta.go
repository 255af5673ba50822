package replica

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	uuidAttr   = "trusted.overlay.uuid"
	originAttr = "trusted.overlay.origin"
	// capabilityAttr is removed by a change of the owner, and of the data.
	capabilityAttr = "security.capability"
)

// meta copies all but the data of an inode. What is at to may have other attributes, because a new file inherits ACLs.
type meta struct {
	from, to   string // paths; from leads to the inode itself, to is not followed
	st         *unix.Statx_t
	unfollowed bool // from is not followed either
	untied     bool // see Options.Untied
	capability bool
}

// before copies the owner and the attributes. The data follows.
func (m *meta) before() error {
	if err := unix.Lchown(m.to, int(m.st.Uid), int(m.st.Gid)); err != nil {
		return err
	}
	listed := unix.Listxattr
	if m.unfollowed {
		listed = unix.Llistxattr
	}
	want, err := list(listed, m.from)
	if err != nil {
		return err
	}
	have, err := list(unix.Llistxattr, m.to)
	if err != nil {
		return err
	}
	if m.untied {
		want = slices.DeleteFunc(want, func(name string) bool { return name == uuidAttr || name == originAttr })
	}
	slices.Sort(want)
	for _, name := range have {
		if _, ok := slices.BinarySearch(want, name); ok {
			continue
		}
		if err := unix.Lremovexattr(m.to, name); err != nil && !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("remove attribute %q: %w", name, err)
		}
	}
	for _, name := range want {
		if name == capabilityAttr {
			m.capability = true
		} else if err := m.attribute(name); err != nil {
			return err
		}
	}
	return nil
}

// after copies the rest. A change of the owner clears setuid, and one of the ACL changes the mode.
func (m *meta) after() error {
	if m.capability {
		if err := m.attribute(capabilityAttr); err != nil {
			return err
		}
	}
	if m.st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(m.to, uint32(m.st.Mode)&0o7777); err != nil {
			return err
		}
	}
	times := []unix.Timespec{
		{Sec: m.st.Atime.Sec, Nsec: int64(m.st.Atime.Nsec)},
		{Sec: m.st.Mtime.Sec, Nsec: int64(m.st.Mtime.Nsec)},
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, m.to, times, unix.AT_SYMLINK_NOFOLLOW)
}

// maxAttribute is the kernel's limit on a value, and on the list of all names, in bytes.
const maxAttribute = 64 << 10

var buffers = sync.Pool{New: func() any { return new([maxAttribute]byte) }}

// list returns the names of a path's attributes.
func list(call func(path string, buf []byte) (int, error), path string) ([]string, error) {
	buf := buffers.Get().(*[maxAttribute]byte)
	defer buffers.Put(buf)
	n, err := call(path, buf[:])
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00"), nil
}

// attribute copies an attribute, unless it was removed meanwhile.
func (m *meta) attribute(name string) error {
	buf := buffers.Get().(*[maxAttribute]byte)
	defer buffers.Put(buf)
	get := unix.Getxattr
	if m.unfollowed {
		get = unix.Lgetxattr
	}
	n, err := get(m.from, name, buf[:])
	if errors.Is(err, unix.ENODATA) {
		return nil
	}
	if err == nil {
		err = unix.Lsetxattr(m.to, name, buf[:n], 0)
	}
	if err != nil {
		return fmt.Errorf("attribute %q: %w", name, err)
	}
	return nil
}

// ofFile is a path of an open file, also of a link that is open as a path.
func ofFile(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
