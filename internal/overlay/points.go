package overlay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// pointsOptions bound the tmpfs of the mount points. Directories take inodes but no
// blocks, and there are more inodes than a mount namespace may have mounts (fs.mount-max,
// 100,000).
const pointsOptions = "size=64k,nr_inodes=131072,mode=0700"

// PointsDir returns the directory of the workspaces' mount points in the data directory
// root.
func PointsDir(root string) string { return filepath.Join(root, "mnt") }

// errNoPoints means that the tmpfs for the mount points is not mounted.
var errNoPoints = errors.New("no tmpfs is mounted there")

// pointsMu prevents two callers from mounting one tmpfs over another.
var pointsMu sync.Mutex

// MountPoints makes dir and mounts a tmpfs there, unless one is mounted. Only mount
// points belong in it. In a mount namespace without the tmpfs a mount point's path does
// not exist, so an empty directory can't be mistaken for the mount.
//
// Another mount namespace may still have the tmpfs of an earlier process at dir, with
// mount points of the same names in it. The kernel would tuck the new tmpfs beneath that
// one, out of sight. So MountPoints removes dir and makes it again: the kernel unmounts
// whatever other namespaces have mounted on a directory that is removed.
//
// An archive of the data directory can bring mount points with files, if it was made while they
// were still mounted. They are deleted, because nothing but mount points belongs there, but for
// what is mounted there: that is an error.
func MountPoints(dir string) error {
	pointsMu.Lock()
	defer pointsMu.Unlock()
	fd, err := openPoints(dir)
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, errNoPoints) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := removePoints(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	const flags = unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount(Source, dir, "tmpfs", flags, pointsOptions); err != nil {
		return fmt.Errorf("mount a tmpfs at %q: %w", dir, err)
	}
	return nil
}

// removePoints removes a directory without a tmpfs, and all files that are in it.
func removePoints(dir string) error {
	var r pointsRemover
	// Reading a directory while it changes can miss names.
	for again := true; again; again = r.err != nil && r.removed > 0 {
		r = pointsRemover{}
		if err := disk.Walk(context.Background(), dir, &r, nil); err != nil {
			return err
		}
	}
	if r.err != nil {
		return fmt.Errorf("%q has files, as a backup leaves them that has the directory: remove them, but first unmount what is mounted there: %w", dir, r.err)
	}
	return nil
}

// pointsRemover is a disk.Visitor that deletes what it visits. disk.Walk enters no mount, and the
// kernel deletes no mount point.
type pointsRemover struct {
	removed int
	err     error // the first
}

func (r *pointsRemover) Visit(e disk.Entry) (enter bool) {
	err := unix.Unlinkat(e.Dir, e.Name, 0)
	if errors.Is(err, unix.EISDIR) {
		return true
	}
	r.note(e, err)
	return false
}

func (r *pointsRemover) Leave(e disk.Entry) {
	r.note(e, unix.Unlinkat(e.Dir, e.Name, unix.AT_REMOVEDIR))
}

func (r *pointsRemover) Skip(e disk.Entry, err error) { r.note(e, err) }

func (r *pointsRemover) note(e disk.Entry, err error) {
	if err == nil {
		r.removed++
	} else if !errors.Is(err, unix.ENOENT) && r.err == nil {
		r.err = fmt.Errorf("delete %q: %w", e.Name, err)
	}
}

// MakePoint makes the directory name in the tmpfs at dir, after mounting that if
// necessary. It never makes one in the directory under the tmpfs. An existing mount point
// is not an error.
func MakePoint(dir, name string) error {
	fd, err := openPoints(dir)
	if errors.Is(err, errNoPoints) || errors.Is(err, fs.ErrNotExist) {
		if err = MountPoints(dir); err == nil {
			fd, err = openPoints(dir)
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mkdirat(fd, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the mount point %q in %q: %w", name, dir, err)
	}
	return nil
}

// openPoints opens the root of the tmpfs at dir. The descriptor keeps the tmpfs alive,
// and so delays Unmounted: close it soon.
func openPoints(dir string) (fd int, err error) {
	defer wrap(&err, "mount points in %q", dir)
	fd, mounted, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	if !mounted {
		err = errNoPoints
	} else if err = unix.Fstatfs(fd, &st); err == nil && st.Type != unix.TMPFS_MAGIC {
		err = errors.New("something other than the plugin's tmpfs is mounted there: unmount it")
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Propagates reports whether mounts in the tmpfs at dir propagate to another mount namespace;
// false if the tmpfs is not mounted. It tries a mount, which the kernel copies to each
// peer of the tmpfs, and makes it a slave: it then has a master only if it has peers.
func Propagates(dir string) (shared bool, err error) {
	defer wrap(&err, "ask whether mounts in %q reach another mount namespace", dir)
	at, remove, err := scratchPoint(dir)
	if errors.Is(err, errNoPoints) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer remove()
	// A new filesystem, because a bind of the tmpfs would be a peer of the tmpfs itself.
	filesystem, err := newFilesystem("tmpfs", nil)
	if err != nil {
		return false, err
	}
	defer unix.Close(filesystem)
	mnt, err := unix.Fsmount(filesystem, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return false, explain(filesystem, "fsmount", err)
	}
	defer unix.Close(mnt)
	if err := attach(mnt, at); err != nil {
		return false, err
	}
	defer unix.Unmount(procPath(mnt), unix.MNT_DETACH)
	if err := setPropagation(mnt, unix.MS_SLAVE, 0); err != nil {
		return false, err
	}
	m, err := mountOf(mnt)
	// It is missing from the mount table if the tmpfs was unmounted meanwhile.
	return m != nil && strings.Contains(m.Optional, "master:"), err
}

// scratchPoint makes and opens a mount point with a unique name.
func scratchPoint(dir string) (at int, remove func(), err error) {
	points, err := openPoints(dir)
	if err != nil {
		return -1, nil, err
	}
	name := ".probe-" + rand.Text()
	if err := unix.Mkdirat(points, name, 0o700); err != nil {
		unix.Close(points)
		return -1, nil, fmt.Errorf("make a mount point in %q: %w", dir, err)
	}
	at, _, err = openDir(points, name)
	remove = func() {
		unix.Close(at)
		_ = unix.Unlinkat(points, name, unix.AT_REMOVEDIR)
		unix.Close(points)
	}
	if err != nil {
		remove()
		return -1, nil, err
	}
	return at, remove, nil
}

// Unmounted returns a channel that is closed when no mount namespace has the filesystem
// at dir mounted any more, or when stop is called.
func Unmounted(dir string) (gone <-chan struct{}, stop func() error, err error) {
	defer wrap(&err, "watch %q", dir)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	// IN_UNMOUNT need not be asked for, but the mask must not be empty.
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_DELETE_SELF|unix.IN_ONLYDIR); err != nil {
		f.Close()
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = f.Read(make([]byte, 4096)) // returns at the first event, or when stop closes f
	}()
	return ended, f.Close, nil
}
