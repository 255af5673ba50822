package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is what a filesystem has.
type Space struct {
	// Total is all of it. A filesystem that makes inodes as it needs them, like
	// btrfs, says 0 of them.
	Total Size `json:"total"`
	// Free is what users without privileges can still take: what is reserved for
	// root is not in it, for git and most containers get ENOSPC there.
	Free Size `json:"free"`
}

// SpaceOf returns the space of the filesystem that path is on.
func SpaceOf(path string) (Space, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return Space{}, fmt.Errorf("space of %q: %w", path, err)
		}
	}
	return Space{
		Total: Size{int64(st.Blocks) * st.Frsize, int64(st.Files)},
		Free:  Size{int64(st.Bavail) * st.Frsize, int64(st.Ffree)},
	}, nil
}
