package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A reserve is a share of its filesystem, within bounds: enough for the directories and
// records that a removal writes.
const (
	reserveShare = 64
	minReserve   = 256 << 10
	maxReserve   = 16 << 20
)

// ReserveFor returns how many bytes to reserve on the filesystem of path, for removals
// when it is full.
func ReserveFor(path string) int64 {
	space, err := SpaceOf(path)
	if err != nil {
		return minReserve
	}
	return min(max(space.Total.Bytes/reserveShare, minReserve), maxReserve)
}

// Allocate allocates the first size bytes of the file at path, which it makes with mode
// 0600 if it is missing. On a filesystem without fallocate it does nothing.
func Allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	err = uninterrupted(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("reserve %d bytes in %q: %w", size, path, err)
	}
	return nil
}

// Reserve is a file that holds blocks until a removal needs them. Its methods may be
// called concurrently; a nil Reserve holds nothing.
type Reserve struct {
	path string
	mu   sync.Mutex
	held bool
}

// NewReserve returns the reserve at path, which still holds the blocks of an earlier run.
func NewReserve(path string) *Reserve {
	info, err := os.Lstat(path)
	return &Reserve{path: path, held: err == nil && info.Size() > 0}
}

// Fill allocates the blocks again, if twice as many are free.
func (r *Reserve) Fill() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		return nil
	}
	size := ReserveFor(filepath.Dir(r.path))
	space, err := SpaceOf(filepath.Dir(r.path))
	if err != nil || space.Free.Bytes < 2*size {
		return err
	}
	if err := Allocate(r.path, size); err != nil {
		return errors.Join(err, os.Truncate(r.path, 0))
	}
	r.held = true
	return nil
}

// Retry calls f. If that fails for lack of room, it releases the blocks and calls f once
// more.
func (r *Reserve) Retry(f func() error) error {
	err := f()
	if r == nil || !NoRoom(err) {
		return err
	}
	if rerr := r.release(); rerr != nil {
		return errors.Join(err, rerr)
	}
	// Call f again in any case, because another Retry may have released the blocks.
	return f()
}

func (r *Reserve) release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held {
		return nil
	}
	err := os.Truncate(r.path, 0)
	r.held = err != nil
	return err
}
