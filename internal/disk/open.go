package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openTries is how often OpenAt tries again when a directory is moved meanwhile.
const openTries = 16

// OpenAt opens path below the open directory dir, which a program may be changing, with flags
// such as unix.O_PATH. It follows no link and enters no mount. A link at the end of path is itself
// opened with O_PATH. The error is the kernel's: ELOOP for a link, but ENOTDIR for one at the end
// of path with O_DIRECTORY, and EXDEV for a mount.
func OpenAt(dir int, path string, flags int) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for range openTries {
		if fd, err = unix.Openat2(dir, path, &how); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// Open is OpenAt for files. It also leaves access times alone, and does not wait for the writer of
// a FIFO. The error is an *fs.PathError.
func Open(dir *os.File, path string, flags int) (*os.File, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOATIME
	}
	fd, err := OpenAt(int(dir.Fd()), path, flags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Base(path)), nil
}
