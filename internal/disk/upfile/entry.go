// Package upfile reads the files of layers and uppers of overlays: by descriptor and without following links, because
// containers have written them.
package upfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Extended attributes with which overlayfs marks directories and files of a layer.
const (
	OpaqueAttr   = "trusted.overlay.opaque"
	RedirectAttr = "trusted.overlay.redirect"
	MetacopyAttr = "trusted.overlay.metacopy"
)

// Whiteout is the kind of an overlayfs whiteout. No file has this kind.
const Whiteout = unix.S_IFMT

// Kind is the kind of a file, or Whiteout.
func Kind(st *unix.Stat_t) uint32 {
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFCHR || st.Rdev != 0 {
		return kind
	}
	return Whiteout
}

// Stat describes name in dir, without following it.
func Stat(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// Below names an entry of an open directory, for calls that take a path and do not
// follow its last element.
func Below(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// Attribute returns an extended attribute of path, without following it. ok reports
// whether the attribute is set: that of metacopy has an empty value.
func Attribute(path, name string) (value string, ok bool, err error) {
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

// OpenDir opens a directory whose parents only the plugin can change.
func OpenDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}
