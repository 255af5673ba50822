package warm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errTooMuch means that layers have more data than their records say.
var errTooMuch = errors.New("its layers have more data than was measured when they were made")

const (
	// chunk is how many bytes of a file are copied before the context is checked again. The
	// kernel limits an attribute's value, and the list of all names, to a quarter of it.
	chunk = 256 << 10
	// batch is how many names of a directory are read at once.
	batch = 256
)

// copier copies files and directories with their modes, owners, times, links and holes, and
// with the attributes that users can set. It leaves out sockets, FIFOs and devices, because
// they are not build state. verify limits the depth, and so the number of descriptors.
type copier struct {
	ctx  context.Context
	room int64 // bytes that may still be copied; after that the error is errTooMuch
	// links is a directory on the same filesystem. It gets a link to the copy of each file
	// that has several names. There may be millions, and in memory each would take hundreds
	// of bytes.
	links string
	buf   []byte
}

// copyTree copies from, with all that is below it, to the path to, which must not exist. An
// error may leave an incomplete copy. links is an empty directory on the same filesystem.
func copyTree(ctx context.Context, from, to, links string, room int64) error {
	c := &copier{ctx: ctx, room: room, links: links, buf: make([]byte, chunk)}
	return c.copy(from, to)
}

func (c *copier) copy(from, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	st, err := stat(unix.AT_FDCWD, from)
	if err != nil {
		return fmt.Errorf("stat %q: %w", from, err)
	}
	var linked string
	if kind(&st) != unix.S_IFDIR && st.Nlink > 1 {
		linked = filepath.Join(c.links, strconv.FormatUint(st.Ino, 10))
		// Copy the file if it has no copy yet, or if that has the maximum of links.
		if err := os.Link(linked, to); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	switch kind(&st) {
	case unix.S_IFDIR:
		err = c.copyDir(from, to)
	case unix.S_IFREG:
		err = c.copyFile(from, to, st.Size)
	case unix.S_IFLNK:
		err = copyLink(from, to)
	default:
		return nil
	}
	if err == nil {
		err = c.copyMeta(from, to, &st)
	}
	if err == nil && linked != "" {
		if err = os.Link(to, linked); errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	return err
}

// copyDir opens both directories, because whole paths may be too long for the kernel.
func (c *copier) copyDir(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	src, err := os.OpenFile(from, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := openDir(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	for {
		names, err := src.Readdirnames(batch)
		for _, name := range names {
			if err := c.copy(below(int(src.Fd()), name), below(int(dst.Fd()), name)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

func (c *copier) copyFile(from, to string, size int64) error {
	in, err := os.OpenFile(from, unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.copyData(in, out, size), out.Close())
}

// copyData copies the data of a file of that size, but not its holes, because a container
// can make terabytes of holes at no cost.
func (c *copier) copyData(in, out *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, hole, err := extent(in, at, size)
		if err != nil {
			return err
		}
		for at = data; at < hole; {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			part := c.buf[:min(chunk, hole-at)]
			if c.room -= int64(len(part)); c.room < 0 {
				return errTooMuch
			}
			if _, err := in.ReadAt(part, at); err != nil {
				return err
			}
			if _, err := out.WriteAt(part, at); err != nil {
				return err
			}
			at += int64(len(part))
		}
	}
	return out.Truncate(size)
}

// extent returns the begin and the end of the next data in a file of that size. If the
// filesystem does not report holes, all of the file is data.
func extent(in *os.File, at, size int64) (data, hole int64, err error) {
	data, err = in.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // only a hole is left
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	hole, err = in.Seek(data, unix.SEEK_HOLE)
	return min(data, size), min(hole, size), err
}

// copyMeta copies everything but the content. It sets the owner before the mode, because
// chown clears setuid, and the times last.
func (c *copier) copyMeta(from, to string, st *unix.Stat_t) error {
	err := os.Lchown(to, int(st.Uid), int(st.Gid))
	if err == nil && kind(st) != unix.S_IFLNK {
		if err = c.copyAttributes(from, to); err == nil {
			err = unix.Chmod(to, st.Mode&0o7777)
		}
	}
	if err == nil {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return fmt.Errorf("copy the owner, attributes, mode and times of %q: %w", from, err)
	}
	return nil
}

// copyAttributes copies the extended attributes that users can set.
func (c *copier) copyAttributes(from, to string) error {
	n, err := unix.Llistxattr(from, c.buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(c.buf[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Lgetxattr(from, name, c.buf)
		if err == nil {
			err = unix.Lsetxattr(to, name, c.buf[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	return nil
}
