package overlay

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Point is a mount as this process sees it.
type Point struct {
	// Path is the mount point, absolute.
	Path string
	// Source is the source that the mount was made with.
	Source string
	// Type is the filesystem's type: "overlay" after Mount, the bound directory's after
	// Bind.
	Type string
}

// Mounts lists all mounts at root and below it, of any type, in an order in which they
// can be detached one by one: the deepest first, and of several at one place the topmost
// first. Where mounts propagate, one Detach may remove another one on the list too: its
// own Detach then returns ErrNotMounted.
func Mounts(root string) (points []Point, err error) {
	defer wrap(&err, "list mounts below %q", root)
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	// mountinfo has paths without symbolic links.
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, err
	}
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(abs))
	if err != nil {
		return nil, err
	}
	for _, m := range infos {
		points = append(points, Point{Path: m.Mountpoint, Source: m.Source, Type: m.FSType})
	}
	slices.Reverse(points)
	slices.SortStableFunc(points, func(a, b Point) int {
		return strings.Count(b.Path, "/") - strings.Count(a.Path, "/")
	})
	return points, nil
}

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
	defer wrap(&err, "detach %q", target)
	fd, mounted, err := openDir(unix.AT_FDCWD, target)
	if err != nil {
		return nil, err
	}
	if !mounted {
		err = ErrNotMounted
	} else if err = unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); errors.Is(err, unix.EINVAL) {
		err = ErrNotMounted // a concurrent Detach was faster
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return sync.OnceValue(func() error { return unix.Close(fd) }), nil
}

// ErrBusy is wrapped by the error of Unmount if a process uses the mount.
var ErrBusy = errors.New("a process uses it")

// Unmount is Detach for a mount that nobody uses, such as a working directory or an open
// file there: otherwise the error is ErrBusy. It looks at all mount namespaces that have
// the mount itself, and not at copies, such as those of containers: Copies counts them.
// The mounts below target are unmounted first, and stay unmounted after an error.
func Unmount(target string) (err error) {
	defer wrap(&err, "unmount %q", target)
	root, mounted, err := openDir(unix.AT_FDCWD, target)
	if err != nil {
		return err
	}
	if !mounted {
		unix.Close(root)
		return ErrNotMounted
	}
	points, err := Mounts(target)
	if err == nil {
		abs := points[len(points)-1].Path // without links; mounts at one place are adjacent
		for _, p := range points {
			if rel, _ := filepath.Rel(abs, p.Path); rel != "." && err == nil {
				err = unmountInside(root, rel)
			}
		}
	}
	unix.Close(root) // which makes it busy
	if err != nil {
		return err
	}
	return unmountAt(target)
}

// unmountInside unmounts what is mounted at rel below the root of a mount. It follows no
// link, because a process inside may have changed the path.
func unmountInside(root int, rel string) error {
	in, err := disk.OpenAt(root, filepath.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("openat2: %w", err)
	}
	defer unix.Close(in)
	return unmountAt(filepath.Join(procPath(in), filepath.Base(rel)))
}

// unmountAt is umount2(2) with our errors.
func unmountAt(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, unix.EINVAL):
		return ErrNotMounted // somebody was faster
	}
	return err
}

// Uncover unmounts what an engine has mounted over a file. Nothing mounted there is not an error.
func Uncover(file string) (err error) {
	defer wrap(&err, "uncover %q", file)
	err = unix.Unmount(file, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
