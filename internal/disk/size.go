package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Size is what files take: allocated bytes and inodes.
type Size struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
}

// Add returns the sum of two sizes.
func (s Size) Add(o Size) Size { return Size{s.Bytes + o.Bytes, s.Inodes + o.Inodes} }

// Sub returns s minus o, which may be negative.
func (s Size) Sub(o Size) Size { return Size{s.Bytes - o.Bytes, s.Inodes - o.Inodes} }

// Exists reports whether path exists, without following a symbolic link.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RemoveContents removes the contents of a directory that only the plugin and git have
// written to.
func RemoveContents(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// Space is the capacity of a filesystem.
type Space struct {
	// Total has 0 inodes on filesystems that make them as needed, such as btrfs.
	Total Size `json:"total"`
	// Free is what users without privileges can still take. It excludes the blocks
	// that are reserved for root, because git and most containers get ENOSPC there.
	Free Size `json:"free"`
}

// SpaceOf returns the space of the filesystem that path is on.
func SpaceOf(path string) (Space, error) {
	var st unix.Statfs_t
	if err := uninterrupted(func() error { return unix.Statfs(path, &st) }); err != nil {
		return Space{}, fmt.Errorf("space of %q: %w", path, err)
	}
	return Space{
		Total: Size{int64(st.Blocks) * st.Frsize, int64(st.Files)},
		Free:  Size{int64(st.Bavail) * st.Frsize, int64(st.Ffree)},
	}, nil
}

// A filesystem with less than fullBelow free bytes counts as full.
const fullBelow = 1 << 20

// Full reports whether one of the directories has no room for data or files.
func Full(dirs []string) bool { return MayHaveFilled(dirs, 0) }

// MayHaveFilled reports whether a program that wrote that many bytes may have filled the
// filesystem of one of the directories: it is full now, or was full with these bytes, which
// the program may have deleted since.
func MayHaveFilled(dirs []string, wrote int64) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		s, err := SpaceOf(dir)
		return err == nil && (s.Free.Bytes < max(fullBelow, 2*wrote) || s.Total.Inodes > 0 && s.Free.Inodes == 0)
	})
}

// uninterrupted repeats a system call while a signal interrupts it.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
