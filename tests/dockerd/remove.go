package dockerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/wait"
)

// Remove kills the processes that an engine left behind, unmounts its mounts and deletes its
// directory.
func Remove(l wait.Limit, dir string) error {
	if err := killAndUnmount(l, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// killAndUnmount kills the processes that an engine left behind and unmounts its mounts.
func killAndUnmount(l wait.Limit, dir string) error {
	for range 100 {
		left := runtimes(dir)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			if err := kill(l, pid); err != nil {
				return err
			}
		}
	}
	if err := removeTraces(l, dir); err != nil {
		return err
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

// removeTraces removes what is outside of dir of containers that were killed with their shims: the
// shims' sockets and the control groups.
func removeTraces(l wait.Limit, dir string) error {
	// containerd has a directory for each container, with its ID as name and the address of its shim.
	var addresses []string
	for _, below := range []string{"exec*", "exec*/*", "exec*/*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, below, "io.containerd.runtime.v2.task/*/*/address"))
		if err != nil {
			return err
		}
		addresses = append(addresses, found...)
	}
	ids := map[string]bool{}
	for _, file := range addresses {
		ids[filepath.Base(filepath.Dir(file))] = true
		address, err := os.ReadFile(file)
		socket, ok := strings.CutPrefix(strings.TrimSpace(string(address)), "unix://")
		if err != nil || !ok || !strings.HasPrefix(socket, "/run/containerd/s/") {
			continue
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return wait.Until(l, func() error { return removeGroups(ids) })
}

// removeGroups removes the control groups of containers, which have no processes any more.
func removeGroups(ids map[string]bool) error {
	var groups []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // another one ends meanwhile
			return nil
		}
		if err == nil && d.IsDir() && slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return ids[name] }) {
			groups = append(groups, path) // one of them, or a group in it
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, group := range slices.Backward(groups) { // those below first
		if err := unix.Rmdir(group); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("rmdir %s: %w", group, err)
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
func killByPidFile(l wait.Limit, path, dir string) error {
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
	return kill(l, pid)
}

// kill kills one process and waits until it is gone, or a zombie whose parent has yet to wait for
// it.
func kill(l wait.Limit, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return wait.Until(l, func() error {
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
