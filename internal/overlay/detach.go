package overlay

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNotMounted is in the error of a Detach or Bind whose target is a
// directory without a mount on it.
var ErrNotMounted = errors.New("is not a mount point")

// Detach takes the mount at target out of the mount table, with everything
// that is mounted below it. Who works in it goes on undisturbed.
//
// The kernel takes an overlay down when its last holder is gone, and that can
// take seconds. So Detach stays a holder itself, which makes it return at
// once, until release is called: call it off the request path. release may be
// called more than once.
//
// Where nothing is mounted the error is ErrNotMounted, where there is no
// directory fs.ErrNotExist.
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
		if errors.Is(err, unix.EINVAL) { // another Detach was faster
			err = ErrNotMounted
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("detach %q: %w", target, err)
	}
	return sync.OnceValue(func() error { return unix.Close(fd) }), nil
}
