package overlay

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNotMounted is wrapped by the error of Detach, Bind or Move if the target is a
// directory but not a mount point.
var ErrNotMounted = errors.New("is not a mount point")

// Detach removes the mount at target, and everything mounted below it, from the mount
// table. Processes that use it go on undisturbed.
//
// The kernel tears an overlay down when its last reference is dropped, which can take
// seconds. So that Detach returns at once, it keeps a reference until release is called:
// call it off the request path. release may be called more than once.
//
// The error is ErrNotMounted if nothing is mounted at target, and fs.ErrNotExist if
// target does not exist.
func Detach(target string) (release func() error, err error) {
	fd, err := openDir(target)
	if err != nil {
		return nil, fmt.Errorf("detach: %w", err)
	}
	mounted, err := isMountRoot(fd)
	if err == nil && !mounted {
		err = ErrNotMounted
	}
	if err == nil {
		err = unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) { // a concurrent Detach was faster
			err = ErrNotMounted
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("detach %q: %w", target, err)
	}
	return sync.OnceValue(func() error { return unix.Close(fd) }), nil
}
