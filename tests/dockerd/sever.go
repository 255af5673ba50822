package dockerd

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Sever cuts what the plugin, the process pid, mounts in its data directory off the host, without a crash: as when the
// engine, which handles the end of an earlier process late, unmounts the propagated mount between the moment when it
// shares that and the one when runc binds it. The plugin's /data is then alone in its peer group.
func (e *Engine) Sever(pid int) error {
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	done := make(chan error)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, because it is in another mount namespace.
		runtime.LockOSThread()
		done <- errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(ns, unix.CLONE_NEWNS),
			unix.Mount("", "/data", "", unix.MS_PRIVATE, ""), unix.Mount("", "/data", "", unix.MS_SHARED, ""))
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("make the plugin's /data private: %w", err)
	}
	// What the engine would have unmounted: all that is mounted in the propagated mount, as the host sees it.
	mounts, err := MountsBelow(e.Data())
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i] == e.Data() {
			continue
		}
		if err := unix.Unmount(mounts[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", mounts[i], err)
		}
	}
	return nil
}
