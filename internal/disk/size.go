package disk

import (
	"errors"
	"os"
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

// Exists reports whether path is there, without following a symlink.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
