package cache

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// copyTo copies size bytes to a new file in the directory to. After an error there is no file.
func copyTo(c *upfile.Copier, in *os.File, to int, name string, size int64) error {
	fd, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	if err := errors.Join(c.CopyData(in, out, size), out.Close()); err != nil {
		return errors.Join(err, unix.Unlinkat(to, name, 0))
	}
	return nil
}

// setAttributes gives a file or link of a new layer its owner, mode and time. Nobody else can change the directory.
func setAttributes(dir int, name string, uid, gid int, mode uint32, at unix.Timespec) error {
	if err := unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if mode&unix.S_IFMT == unix.S_IFREG {
		perm := uint32(0o644)
		if mode&0o111 != 0 {
			perm = 0o755
		}
		if err := unix.Fchmodat(dir, name, perm, 0); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// attributes lists the names of extended attributes. It reads at most 64 KiB: the kernel has no more.
func attributes(path string) ([]string, error) {
	var small [512]byte
	buf := small[:]
	n, err := unix.Llistxattr(path, buf)
	if errors.Is(err, unix.ERANGE) {
		buf = make([]byte, 64<<10)
		n, err = unix.Llistxattr(path, buf)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00"), nil
}

// strip removes the extended attributes, but not the label of SELinux, which each file has.
func strip(path string, names []string) error {
	for _, name := range names {
		if name == "security.selinux" {
			continue
		}
		if err := unix.Lremovexattr(path, name); err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	return nil
}

// redirect returns the path that a file or directory without content of its own shows, from the top of the workspace or of
// its directory, or "". The kernel limits it to 64 KiB.
func redirect(path string) (string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(path, upfile.RedirectAttr, buf)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// merged reports whether a directory has more in the layers below: it was copied up, or renamed, and hides nothing.
func merged(path string) (bool, error) {
	names, err := attributes(path)
	if err != nil || !slices.ContainsFunc(names, isOverlay) {
		return false, err
	}
	opaque, _, err := upfile.Attribute(path, upfile.OpaqueAttr)
	renamed := slices.Contains(names, upfile.RedirectAttr)
	return renamed || opaque != "y" && slices.Contains(names, originAttr), err
}

// originAttr is set on what overlayfs has copied up.
const originAttr = "trusted.overlay.origin"

func isOverlay(name string) bool { return strings.HasPrefix(name, "trusted.overlay.") }

// maxCompared bounds how much of two files of the same size is read to compare them. Longer ones count as different.
const maxCompared = 32 << 20

// sameContent compares two files.
func sameContent(files ...*os.File) (bool, error) {
	var bufs [2][32 << 10]byte
	for {
		var n [2]int
		for i, f := range files {
			var err error
			n[i], err = io.ReadFull(f, bufs[i][:])
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if same := bytes.Equal(bufs[0][:n[0]], bufs[1][:n[1]]); !same || n[0] == 0 {
			return same, nil
		}
	}
}
