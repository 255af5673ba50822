package overlay

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrUnknown is in the error of Holders before Linux 6.8, and for an overlay without a
// file or directory to ask with.
var ErrUnknown = errors.New("the kernel can't tell who has it")

// statxMntIDUnique (Linux 6.8) asks for the ID of a mount that is never used again.
const statxMntIDUnique = 0x4000

// holderTries is how often a count is taken.
const holderTries = 32

// counting is held while something is counted here: the mounts that one count makes are
// in the other's way.
var counting sync.Mutex

// Holders returns how many mounts, in whatever mount namespace, receive what is
// mounted below the overlay at target, beyond those that come with the tmpfs at
// points (MountPoints) in which target lies: one for each container that the Docker
// engine has given the overlay, as long as the container does not change the
// propagation of its mount. It can be too high while others mount.
//
// It asks by binding a file of the overlay onto itself, for microseconds: the kernel
// numbers all mounts in turn, so two numbers tell how many copies were made between. All
// in all that takes a millisecond or more. The error is ErrUnknown before Linux 6.8, and
// for an empty overlay.
func Holders(target, points string) (int, error) {
	counting.Lock()
	defer counting.Unlock()
	n, err := holders(target, points)
	if n == 0 && err == nil { // a container would lose its workspace: ask twice
		n, err = holders(target, points)
	}
	if err != nil {
		return 0, fmt.Errorf("ask who has %q: %w", target, err)
	}
	return n, nil
}

func holders(target, points string) (int, error) {
	in, err := openInside(target)
	if err != nil {
		return 0, err
	}
	defer unix.Close(in)
	beside, remove, err := scratchPoint(points)
	if err != nil {
		return 0, err
	}
	defer remove()
	// Each number of the overlay is compared with those beside that were taken just before
	// and after it, because processes that are being started in mount namespaces of their
	// own have copies of all mounts for a moment, and are in both numbers. Single numbers
	// are wrong: too high by the mounts that others make meanwhile, or too low by a copy
	// whose namespace is about to end. So the median is believed.
	before, err := copies(beside)
	var counts []int
	for range holderTries {
		var there, after uint64
		if err == nil {
			there, err = copies(in)
		}
		if err == nil {
			after, err = copies(beside)
		}
		if err != nil {
			return 0, err
		}
		counts = append(counts, int(there)-int(min(before, after)))
		before = after
	}
	slices.Sort(counts)
	return max(counts[holderTries/2], 0), nil
}

// copies returns how many copies the kernel makes of a mount at the open file at.
func copies(at int) (uint64, error) {
	clone := func() (fd int, id uint64, err error) {
		fd, err = unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return -1, 0, fmt.Errorf("open_tree: %w", err)
		}
		if id, err = uniqueID(fd); err != nil {
			unix.Close(fd)
		}
		return fd, id, err
	}
	mnt, before, err := clone()
	if err != nil {
		return 0, err
	}
	defer unix.Close(mnt)
	// A peer of the overlay's own mount would get a copy itself.
	if err := unix.MountSetattr(mnt, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return 0, fmt.Errorf("mount_setattr: %w", err)
	}
	if err := attach(mnt, at); err != nil {
		return 0, err
	}
	defer unix.Unmount(procPath(mnt), unix.MNT_DETACH)
	next, after, err := clone()
	if err != nil {
		return 0, err
	}
	unix.Close(next)
	return after - before - 1, nil
}

func uniqueID(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxMntIDUnique, &st); err != nil {
		return 0, fmt.Errorf("statx: %w", err)
	}
	if st.Mask&statxMntIDUnique == 0 {
		return 0, ErrUnknown
	}
	return st.Mnt_id, nil
}

// maxInside bounds how many names of a directory are looked at.
const maxInside = 64

// openInside opens something in the overlay at target to bind onto itself: the file
// that every workspace begins with or, where a container has removed that, a file or
// directory at the top.
func openInside(target string) (int, error) {
	root, err := openDir(target)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	mounted, err := isMountRoot(root)
	if err != nil {
		return -1, err
	}
	if !mounted {
		return -1, ErrNotMounted
	}
	open := func(name string) (int, bool) {
		fd, err := unix.Openat2(root, name, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
		if err != nil {
			return -1, false
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
			return fd, true
		}
		unix.Close(fd)
		return -1, false
	}
	if fd, ok := open(".git/helmdeck.json"); ok {
		return fd, nil
	}
	dir, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	f := os.NewFile(uintptr(dir), target)
	defer f.Close()
	names, _ := f.Readdirnames(maxInside)
	for _, name := range names {
		if fd, ok := open(name); ok {
			return fd, nil
		}
	}
	return -1, ErrUnknown
}
