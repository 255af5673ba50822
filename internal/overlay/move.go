package overlay

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Move takes what is mounted at from, and below it, to the mount point to; what a
// Move that died left of that is done. The copies of the mount that containers have
// stay as they are, with what is mounted in them.
func Move(from, to string) error {
	if err := move(from, to); err != nil {
		return fmt.Errorf("move the mount at %q to %q: %w", from, to, err)
	}
	return nil
}

func move(from, to string) error {
	source, err := openDir(from)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	mounted, err := isMountRoot(source)
	if err != nil {
		return err
	}
	if !mounted {
		return ErrNotMounted
	}
	target, err := openDir(to)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	there, err := isMountRoot(target)
	if err != nil {
		return err
	}
	if !there {
		// Not MS_MOVE, which the kernel refuses where mounts propagate.
		mnt, err := unix.OpenTree(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(mnt)
		if err := attach(mnt, target); err != nil {
			return err
		}
	}
	// An unmount in a shared mount is one in all copies of it.
	if err := unix.MountSetattr(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return unix.Unmount(from, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
}
