package overlay

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Bind attaches the directory source, nodev and nosuid, at rel below the mount at target.
// A container may replace any part of rel by a link or a mount: Bind follows no link and
// crosses no mount below target, and returns an error unless rel is a plain directory.
// Binding twice at one place is an error. A container with CAP_SYS_ADMIN can undo
// readOnly.
func Bind(source, target, rel string, readOnly bool) (err error) {
	defer wrap(&err, "bind %q at %q below %q", source, rel, target)
	if !filepath.IsLocal(rel) || rel == "." || rel != filepath.Clean(rel) {
		return fmt.Errorf("%q is not a clean path below the mount: %w", rel, unix.EINVAL)
	}
	root, mounted, err := openDir(unix.AT_FDCWD, target)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if !mounted {
		return ErrNotMounted
	}
	at, err := disk.OpenAt(root, rel, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("openat2: %w", err)
	}
	defer unix.Close(at)

	from, _, err := openDir(unix.AT_FDCWD, source)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	mnt, err := unix.OpenTree(from, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(mnt)
	attributes := uint64(unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID)
	if readOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(mnt, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	// Attach to the descriptor, because the path may have changed since.
	return attach(mnt, at)
}
