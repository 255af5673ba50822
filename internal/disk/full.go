package disk

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// IsFull reports whether err says that a filesystem is full, so that the machine has more room after an eviction.
// A quota that is used up is not the machine's disk: an eviction would cost others their data for nothing.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) }

// NoRoom reports whether something could not be written for lack of room, whether the filesystem is full or a quota
// is used up. It is for what needs hardly any room, and can work with what it has.
func NoRoom(err error) bool { return IsFull(err) || errors.Is(err, unix.EDQUOT) }

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
