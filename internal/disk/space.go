package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is the capacity of a filesystem.
type Space struct {
	// Total has 0 inodes on filesystems that make them as needed, such as btrfs.
	Total Size `json:"total"`
	// Free is what users without privileges can still take. It excludes what is reserved
	// for root, because git and most containers get ENOSPC there.
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
