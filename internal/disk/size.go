package disk

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

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

// Percent returns how much of a limit s has, of bytes or inodes, whichever is more, as a whole number: 0 without a
// limit.
func (s Size) Percent(limit Size) int {
	share := func(n, of int64) float64 {
		if of <= 0 {
			return 0
		}
		return float64(n) / float64(of)
	}
	return int(math.Round(100 * max(share(s.Bytes, limit.Bytes), share(s.Inodes, limit.Inodes))))
}

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

// uninterrupted repeats a system call while a signal interrupts it.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
