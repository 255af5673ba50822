package warm

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Attributes with which overlayfs says what a directory or a file of a layer
// means.
const (
	opaqueAttr   = "trusted.overlay.opaque"
	redirectAttr = "trusted.overlay.redirect"
	metacopyAttr = "trusted.overlay.metacopy"
)

// openBelow opens the directory name of dir, with flags besides. Nothing on the
// way is followed or crossed.
func openBelow(dir int, name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   flags | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openDir opens a directory of ours.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// below names what is in an open directory, for calls that take a path and do not
// follow its end.
func below(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// attribute returns the value of an attribute of path, which is not followed, and
// whether it has it: that of metacopy is empty.
func attribute(path, name string) (value string, ok bool, err error) {
	var buf [256]byte
	n, err := unix.Lgetxattr(path, name, buf[:])
	switch {
	case err == nil:
		return string(buf[:n]), true, nil
	case errors.Is(err, unix.ERANGE):
		return "something long", true, nil
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return "", false, nil
	}
	return "", false, fmt.Errorf("attribute %s: %w", name, err)
}

func kind(st *unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }

// isWhiteout reports whether what is at st says that nothing is there.
func isWhiteout(st *unix.Stat_t) bool { return kind(st) == unix.S_IFCHR && st.Rdev == 0 }

// stat describes name in dir, without following it.
func stat(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}
