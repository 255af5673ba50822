package overlay

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Move moves the mount at from, and those below it, to the directory to. It completes a
// Move that a crash interrupted. The copies that containers have are not affected, nor
// are the mounts in them.
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
		// Not MS_MOVE, because the kernel refuses it for shared mounts.
		mnt, err := unix.OpenTree(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(mnt)
		if err := attach(mnt, target); err != nil {
			return err
		}
	}
	// Unmounting a shared mount would unmount all its copies.
	if err := unix.MountSetattr(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return unix.Unmount(from, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
}
