package warm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// copyTree copies the directory from, with all that is below, into the directory
// dst: with modes, owners, times, links, holes and attributes of users. Sockets,
// FIFOs and devices, which build state does not mean, are left out. The error is
// errTooMuch once more than room bytes would have been copied. Files with several
// names have one in links too, a directory of the same filesystem.
func copyTree(ctx context.Context, from string, dst, links *os.File, room int64) error {
	c := &copier{ctx: ctx, links: int(links.Fd()), room: room}
	c.levels = []level{{fd: int(dst.Fd())}}
	err := disk.Walk(ctx, from, c, nil)
	return errors.Join(err, c.err, c.up(0))
}

// copier has the directories open that it is in, of which verify has bounded the
// number.
type copier struct {
	ctx    context.Context
	levels []level
	// links has a name for each inode that has several: in memory they would take
	// hundreds of bytes each, and there may be millions.
	links int
	room  int64 // bytes that may still be copied
	buf   []byte
	err   error
}

// level is a directory that is being filled; the first is the one that was given.
type level struct {
	fd   int
	name string
	st   unix.Stat_t // of the source: times are set when all is in it
}

func (c *copier) Visit(e disk.Entry) (enter bool) {
	if c.err != nil {
		return false
	}
	if enter, c.err = c.visit(e); c.err != nil {
		c.err = fmt.Errorf("copy %q: %w", e.Name, c.err)
	}
	return enter && c.err == nil
}

func (c *copier) visit(e disk.Entry) (enter bool, err error) {
	if err := c.up(e.Depth); err != nil {
		return false, err
	}
	st, err := stat(e.Dir, e.Name)
	if err != nil {
		return false, err
	}
	dst := c.levels[len(c.levels)-1].fd
	switch kind(&st) {
	case unix.S_IFDIR:
		return true, c.down(e, st)
	case unix.S_IFREG, unix.S_IFLNK:
	default:
		return false, nil
	}
	linked := strconv.FormatUint(st.Ino, 10)
	if st.Nlink > 1 {
		if err := unix.Linkat(c.links, linked, dst, e.Name, 0); !isNoLink(err) {
			return false, err
		}
	}
	if kind(&st) == unix.S_IFLNK {
		err = copyLink(e, dst)
	} else {
		err = c.copyFile(e, dst, st.Size)
	}
	if err == nil {
		err = dress(e.Dir, dst, e.Name, &st)
	}
	if err == nil && st.Nlink > 1 {
		// Where there is a name already, it has all the links that it can have.
		if err = unix.Linkat(dst, e.Name, c.links, linked, 0); errors.Is(err, unix.EEXIST) {
			err = nil
		}
	}
	return false, err
}

// isNoLink says that there is no file to link to, or that it has too many links.
func isNoLink(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EMLINK) }

// down makes a directory and goes into it.
func (c *copier) down(e disk.Entry, st unix.Stat_t) error {
	dst := c.levels[len(c.levels)-1].fd
	if err := unix.Mkdirat(dst, e.Name, 0o700); err != nil {
		return err
	}
	if err := dress(e.Dir, dst, e.Name, &st); err != nil {
		return err
	}
	fd, err := unix.Openat(dst, e.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.levels = append(c.levels, level{fd, e.Name, st})
	return nil
}

// up leaves directories until the one that is filled is depth below the first.
func (c *copier) up(depth int) error {
	var errs []error
	for len(c.levels) > depth+1 {
		l := c.levels[len(c.levels)-1]
		c.levels = c.levels[:len(c.levels)-1]
		unix.Close(l.fd)
		errs = append(errs, setTimes(c.levels[len(c.levels)-1].fd, l.name, &l.st))
	}
	return errors.Join(errs...)
}

func copyLink(e disk.Entry, dst int) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.Dir, e.Name, buf)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(buf[:n]), dst, e.Name)
}

func (c *copier) copyFile(e disk.Entry, dst int, size int64) error {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), e.Name)
	defer in.Close()
	fd, err = unix.Openat(dst, e.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), e.Name)
	return errors.Join(c.copyData(out, in, size), out.Close())
}

// dress gives name in dst what name in src has besides its content. The owner
// comes before the mode, for chown takes setuid away.
func dress(src, dst int, name string, st *unix.Stat_t) error {
	if err := unix.Fchownat(dst, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if kind(st) != unix.S_IFLNK {
		if err := copyAttributes(below(src, name), below(dst, name)); err != nil {
			return err
		}
		if err := unix.Fchmodat(dst, name, st.Mode&0o7777, 0); err != nil {
			return err
		}
	}
	return setTimes(dst, name, st)
}

func setTimes(dst int, name string, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(dst, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// copyAttributes copies those that users can set, but none that a filesystem does
// not take.
func copyAttributes(from, to string) error {
	n, err := unix.Llistxattr(from, nil)
	if err != nil || n == 0 {
		return ignoreUnsupported(err)
	}
	names := make([]byte, n)
	if n, err = unix.Llistxattr(from, names); err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Lgetxattr(from, name, nil)
		if err != nil {
			return err
		}
		value := make([]byte, n)
		if n, err = unix.Lgetxattr(from, name, value); err != nil {
			return err
		}
		if err := unix.Lsetxattr(to, name, value[:n], 0); err != nil {
			return fmt.Errorf("attribute %s: %w", strconv.Quote(name), err)
		}
	}
	return nil
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func (c *copier) Leave(disk.Entry) {}

func (c *copier) Skip(e disk.Entry, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("copy %q: %w", e.Name, err)
	}
}
