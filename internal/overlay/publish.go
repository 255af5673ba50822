package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Target is a directory of an orchestrator at which a workspace is published. Dir is the
// directory of all targets, and Rel the path below it, clean and without links: whoever may
// write to a part of it can't lead a method to another place.
type Target struct{ Dir, Rel string }

// errForeign is wrapped by the error about a target at which something else is mounted.
var errForeign = errors.New("something else is mounted there")

// errNotEmpty is wrapped by the error about a target that has files of its own.
var errNotEmpty = errors.New("the directory is not empty")

// Path returns the target's path.
func (t Target) Path() string { return filepath.Join(t.Dir, t.Rel) }

// Make makes the target's directory. made is false if it exists already, as an empty
// directory or a mount point; anything else is an error. The directory above must exist.
func (t Target) Make() (made bool, err error) {
	defer wrap(&err, "make %q", t.Path())
	parent, err := t.openParent()
	if err != nil {
		return false, err
	}
	defer unix.Close(parent)
	err = unix.Mkdirat(parent, t.name(), 0o750)
	if err == nil || !errors.Is(err, unix.EEXIST) {
		return err == nil, err
	}
	at, mounted, err := openDir(parent, t.name())
	if err != nil {
		return false, err
	}
	defer unix.Close(at)
	if mounted {
		return false, nil
	}
	return false, isEmpty(at)
}

// Publish attaches a copy of the mount at source, and of those below it, to the target,
// nodev and nosuid, and if readOnly is set all of them read-only. The copy does not join
// the peer group of source: whatever is mounted or unmounted in one is not in the other,
// and neither in another target. The target must exist, and nothing be mounted there.
func (t Target) Publish(source string, readOnly bool) (err error) {
	defer wrap(&err, "publish %q at %q", source, t.Path())
	parent, err := t.openParent()
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	at, mounted, err := openDir(parent, t.name())
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if mounted {
		return errMounted
	}
	from, mounted, err := openDir(unix.AT_FDCWD, source)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if !mounted {
		return ErrNotMounted
	}
	mnt, err := unix.OpenTree(from, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(mnt)
	attributes := unix.MountAttr{Propagation: unix.MS_PRIVATE, Attr_set: unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID}
	if readOnly {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(mnt, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return attach(mnt, at)
}

// Shows reports whether the target shows the overlay that is mounted at source. Nothing
// mounted is false; a mount of another program is errForeign.
func (t Target) Shows(source string) (shows bool, err error) {
	defer wrap(&err, "look at %q", t.Path())
	parent, err := t.openParent()
	if err == nil {
		defer unix.Close(parent)
		var at int
		var mounted bool
		if at, mounted, err = openDir(parent, t.name()); err == nil {
			defer unix.Close(at)
			if !mounted {
				return false, nil
			}
			if err := isOurs(at); err != nil {
				return false, err
			}
			return sameFilesystem(at, source)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, err
}

// Unpublish undoes Publish and Make: it detaches what is published at the target, and
// removes the directory. A target that does not exist is not an error. A mount of another
// program is errForeign, and a directory with files errNotEmpty; both stay.
func (t Target) Unpublish(unmounted func()) (err error) {
	defer wrap(&err, "unpublish %q", t.Path())
	parent, err := t.openParent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	for more := true; more && err == nil; { // mounts that a crash has left on one another
		more, err = t.unmount(parent)
	}
	if err == nil {
		unmounted()
		err = unix.Unlinkat(parent, t.name(), unix.AT_REMOVEDIR)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return errNotEmpty
	}
	return err
}

// Detach detaches what an earlier process has published at the target, and is nothing
// without that. A mount of another program is errForeign, and stays.
func (t Target) Detach() (err error) {
	defer wrap(&err, "unpublish %q", t.Path())
	parent, err := t.openParent()
	if err == nil {
		defer unix.Close(parent)
		for more := true; more && err == nil; {
			more, err = t.unmount(parent)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unmount detaches the topmost mount at the target. more is false if there was none.
func (t Target) unmount(parent int) (more bool, err error) {
	at, mounted, err := openDir(parent, t.name())
	if err != nil {
		return false, err
	}
	if mounted {
		err = isOurs(at)
	}
	unix.Close(at)
	if err != nil || !mounted {
		return false, err
	}
	err = unix.Unmount(filepath.Join(procPath(parent), t.name()), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: somebody was faster
		return false, fmt.Errorf("umount2: %w", err)
	}
	return true, nil
}

// HasParent reports whether the directory above the target exists. If not even the directory
// of all targets does, the question has no answer, because another directory may be
// mounted there by mistake: an error.
func (t Target) HasParent() (bool, error) {
	if _, err := os.Lstat(t.Dir); err != nil {
		return false, err
	}
	parent, err := t.openParent()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %q: %w", t.Path(), err)
	}
	return true, unix.Close(parent)
}

func (t Target) name() string { return filepath.Base(t.Rel) }

// openParent opens the directory above the target, through no link and no mount.
func (t Target) openParent() (int, error) {
	if !filepath.IsLocal(t.Rel) || t.Rel == "." || t.Rel != filepath.Clean(t.Rel) {
		return -1, fmt.Errorf("%q is not a clean path below %q: %w", t.Rel, t.Dir, unix.EINVAL)
	}
	dir, err := unix.Open(t.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", t.Dir, err)
	}
	defer unix.Close(dir)
	parent, err := disk.OpenAt(dir, filepath.Dir(t.Rel), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("openat2: %w", err)
	}
	return parent, nil
}

// isEmpty returns errNotEmpty for a directory with files.
func isEmpty(at int) error {
	dir, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	names := make([]byte, 4096)
	n, err := unix.ReadDirent(dir, names)
	if err != nil {
		return err
	}
	if _, found, _ := unix.ParseDirent(names[:n], 1, nil); found > 0 {
		return errNotEmpty
	}
	return nil
}

// isOurs returns errForeign unless the mount whose root is at is a workspace's overlay.
func isOurs(at int) error {
	m, err := mountOf(at)
	if err == nil && (m == nil || m.FSType != "overlay" || m.Source != Source) {
		err = errForeign
	}
	return err
}

// mountOf returns the mount that an open directory is on; nil if it was unmounted meanwhile.
func mountOf(fd int) (*mountinfo.Info, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return nil, fmt.Errorf("statx: %w", err)
	}
	infos, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		found := uint64(m.ID) == st.Mnt_id
		return !found, found
	})
	if err != nil || len(infos) == 0 {
		return nil, err
	}
	return infos[0], nil
}

// sameFilesystem reports whether the directory at is on the filesystem of the directory path.
func sameFilesystem(at int, path string) (bool, error) {
	other, _, err := openDir(unix.AT_FDCWD, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(other)
	var a, b unix.Stat_t
	if err := errors.Join(unix.Fstat(at, &a), unix.Fstat(other, &b)); err != nil {
		return false, err
	}
	return a.Dev == b.Dev, nil
}

// IsShared reports whether what is mounted in the directory dir reaches other mount
// namespaces that have it as a peer: in a container, those for which the orchestrator was
// asked to propagate its mounts. Unlike Propagates, it says so too if no other one exists.
func IsShared(dir string) (shared bool, err error) {
	defer wrap(&err, "look up the propagation of %q", dir)
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(at)
	m, err := mountOf(at)
	return m != nil && strings.Contains(m.Optional, "shared:"), err
}
