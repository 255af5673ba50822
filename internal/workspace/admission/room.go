package admission

import (
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
)

// RoomError says that a disk has become too full for a copy.
type RoomError struct{ left disk.Size }

func (e *RoomError) Error() string {
	return fmt.Sprintf("the disk has %d bytes and %d inodes free, which is less than half of what it had when the copy began: "+
		"make room (docker repos prune), and run it again", e.left.Bytes, e.left.Inodes)
}

// HalfOfFree returns a function that returns a *RoomError when less than half of what is free now is free, whoever took
// it: copies, and what containers write meanwhile, must leave others room, inodes too.
func HalfOfFree(dir string) (check func() error, err error) {
	began, err := disk.SpaceOf(dir)
	if err != nil {
		return nil, err
	}
	return func() error {
		now, err := disk.SpaceOf(dir)
		if err != nil {
			return err
		}
		if now.Free.Bytes < began.Free.Bytes/2 || now.Free.Inodes < began.Free.Inodes/2 {
			return &RoomError{now.Free}
		}
		return nil
	}, nil
}

// MayCopy returns how many bytes may be copied for a subject that may hold so many in all, zero for any number: no more, and
// a part of what is free.
func MayCopy(dir string, most, part int64) (int64, error) {
	space, err := disk.SpaceOf(dir)
	n := space.Free.Bytes / part
	if most > 0 {
		n = min(n, most)
	}
	return max(n, 1), err
}
