package overlay

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrUnknown is wrapped by Copies' error before Linux 6.8, and for an overlay without
// any file or directory.
var ErrUnknown = errors.New("the kernel can't count its users")

// statxMntIDUnique (Linux 6.8) asks for a mount ID that is never reused.
const statxMntIDUnique = 0x4000

// copyTries is how many times Copies counts.
const copyTries = 32

// counting serializes counts, because each sees the mounts that the other makes.
var counting sync.Mutex

// Copies returns how many copies of the overlay at target exist in all mount namespaces,
// beyond those that come with the tmpfs at points (MountPoints) that target is in: one
// for each container that the Docker engine gave the overlay, unless the container
// changed the propagation of its mount. It can be too high while others mount.
//
// It binds a file of the overlay onto itself, for microseconds: the kernel numbers all
// mounts consecutively, so two numbers tell how many copies were made in between. A call
// takes a millisecond or more. The error is ErrUnknown before Linux 6.8, and for an empty
// overlay.
func Copies(target, points string) (n int, err error) {
	defer wrap(&err, "count the users of %q", target)
	counting.Lock()
	defer counting.Unlock()
	n, err = countCopies(target, points)
	if n == 0 && err == nil { // a wrong 0 costs a container its workspace: ask twice
		n, err = countCopies(target, points)
	}
	return n, err
}

func countCopies(target, points string) (int, error) {
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
	// Each count in the overlay is compared with the counts beside it taken just before
	// and just after, because a process that starts in a new mount namespace briefly has
	// copies of all mounts, and is in both. A single count can be wrong: too high by
	// mounts that others make meanwhile, or too low by a copy whose namespace is about to
	// end. So the median is used.
	before, err := copies(beside)
	var counts []int
	for range copyTries {
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
	return max(counts[copyTries/2], 0), nil
}

// copies returns how many copies the kernel makes of a mount on the open file at.
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
	// As a peer of the overlay's mount it would get a copy itself.
	if err := setPropagation(mnt, unix.MS_PRIVATE, 0); err != nil {
		return 0, err
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

// maxInside is how many names openInside tries.
const maxInside = 64

// openInside opens a file of the overlay at target that can be bound onto itself: the one
// that every workspace starts with or, if a container removed it, a file or directory at
// the top.
func openInside(target string) (int, error) {
	root, mounted, err := openDir(unix.AT_FDCWD, target)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	if !mounted {
		return -1, ErrNotMounted
	}
	open := func(name string) (int, bool) {
		fd, err := disk.OpenAt(root, name, unix.O_PATH)
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
