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

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// batch is how many names of a directory are read at once.
const batch = 256

// copier copies files and directories with their modes, owners, times, links and holes, and
// with the attributes that users can set. It leaves out sockets, FIFOs and devices, because
// they are not build state. verify limits the depth, and so the number of descriptors.
type copier struct {
	upfile.Copier
	// links is a directory on the same filesystem. It gets a link to the copy of each file
	// that has several names. There may be millions, and in memory each would take hundreds
	// of bytes.
	links string
}

// copyTree copies from, with all that is below it, to the path to, which must not exist. An
// error may leave an incomplete copy. links is an empty directory on the same filesystem.
func copyTree(ctx context.Context, from, to, links string, room int64) error {
	c := &copier{Copier: upfile.NewCopier(ctx, room), links: links}
	return c.copy(from, to)
}

func (c *copier) copy(from, to string) error {
	if err := c.Ctx.Err(); err != nil {
		return err
	}
	st, err := upfile.Stat(unix.AT_FDCWD, from)
	if err != nil {
		return fmt.Errorf("stat %q: %w", from, err)
	}
	var linked string
	if upfile.Kind(&st) != unix.S_IFDIR && st.Nlink > 1 {
		linked = filepath.Join(c.links, strconv.FormatUint(st.Ino, 10))
		// Copy the file if it has no copy yet, or if that has the maximum of links.
		if err := os.Link(linked, to); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	if !isBuildState(&st) {
		return nil
	}
	err = c.copyOne(from, to, &st)
	if err == nil && linked != "" {
		if err = os.Link(to, linked); errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	return err
}

// isBuildState reports whether a file is of a kind that is copied.
func isBuildState(st *unix.Stat_t) bool {
	return upfile.Kind(st) == unix.S_IFDIR || upfile.Kind(st) == unix.S_IFREG || upfile.Kind(st) == unix.S_IFLNK
}

// copyOne copies a file, a link or a directory, which st describes.
func (c *copier) copyOne(from, to string, st *unix.Stat_t) (err error) {
	switch upfile.Kind(st) {
	case unix.S_IFDIR:
		err = c.copyDir(from, to)
	case unix.S_IFREG:
		err = c.copyFile(from, to, st.Size)
	case unix.S_IFLNK:
		err = copyLink(from, to)
	}
	if err != nil {
		return err
	}
	return c.copyMeta(from, to, st)
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
	dst, err := upfile.OpenDir(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	for {
		names, err := src.Readdirnames(batch)
		for _, name := range names {
			if err := c.copy(upfile.Below(int(src.Fd()), name), upfile.Below(int(dst.Fd()), name)); err != nil {
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
	return errors.Join(c.CopyData(in, out, size), out.Close())
}

// copyMeta copies everything but the content. It sets the owner before the mode, because
// chown clears setuid, and the times last.
func (c *copier) copyMeta(from, to string, st *unix.Stat_t) error {
	err := os.Lchown(to, int(st.Uid), int(st.Gid))
	if err == nil && upfile.Kind(st) != unix.S_IFLNK {
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
	n, err := unix.Llistxattr(from, c.Buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(c.Buf[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Lgetxattr(from, name, c.Buf)
		if err == nil {
			err = unix.Lsetxattr(to, name, c.Buf[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	return nil
}
