package dockerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/proc"
)

// Remove kills the processes that an engine left behind, unmounts its mounts and deletes its
// directory.
func Remove(dir string) error {
	if err := killAndUnmount(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// killAndUnmount kills the processes that an engine left behind and unmounts its mounts.
func killAndUnmount(dir string) error {
	for range 100 {
		left := runtimes(dir)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			if err := kill(pid); err != nil {
				return err
			}
		}
	}
	// The newest first: a mount may cover an older one.
	mounts, err := MountsBelow(dir)
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(mounts[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", mounts[i], err)
		}
	}
	return nil
}

// runtimes returns the processes of the engine in dir: the engine, its containerd and the shims,
// which have dir on their command lines, and the children of these processes, the containers.
func runtimes(dir string) []int {
	var pids []int
	parents := map[int]bool{}
	for range 2 { // shims first, then their children
		for _, pid := range proc.All() {
			if parents[pid] || pid == os.Getpid() {
				continue
			}
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			named := err == nil && isRuntime(line) && bytes.Contains(line, []byte(dir+"/"))
			if named || parents[proc.Parent(pid)] {
				pids = append(pids, pid)
				parents[pid] = true
			}
		}
	}
	return pids
}

// isRuntime reports whether a command line is that of an engine or a containerd. Remove must not
// kill an editor or a pager that shows a file of the engine.
func isRuntime(cmdline []byte) bool {
	name, _, _ := bytes.Cut(cmdline, []byte{0})
	base := filepath.Base(string(name))
	return base == "dockerd" || strings.HasPrefix(base, "containerd")
}

// killByPidFile kills the process of a pid file if its command line names dir. Another process may
// have the pid by now.
func killByPidFile(path, dir string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(line, []byte(dir+"/")) {
		return nil
	}
	return kill(pid)
}

// kill kills one process and waits until it is gone, or a zombie whose parent has yet to wait for
// it.
func kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return Poll(Timeout, func() error {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(line) == 0 {
			return nil
		}
		return fmt.Errorf("process %d still exists after SIGKILL", pid)
	})
}

// MountsBelow returns the mount points at and below dir, the oldest first.
func MountsBelow(dir string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}
