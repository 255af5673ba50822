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
)

// Remove ends the processes that an engine left behind, takes its mounts away and deletes its folder.
func Remove(dir string) error {
	if err := free(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// free ends the processes that an engine left behind and takes its mounts away.
func free(dir string) error {
	for range 100 {
		left := runtimes(dir)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			if err := end(pid); err != nil {
				return err
			}
		}
	}
	// The last ones first: they may lie on top of others.
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

// runtimes are those of the engine in dir: those that have its name on their command line (the engine, its
// containerd, the shims), and the containers, whose parents they are.
func runtimes(dir string) []int {
	var pids []int
	parents := map[int]bool{}
	for range 2 { // shims first, then their children
		for _, pid := range Processes() {
			if parents[pid] || pid == os.Getpid() {
				continue
			}
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			named := err == nil && isRuntime(line) && bytes.Contains(line, []byte(dir+"/"))
			if named || parents[Parent(pid)] {
				pids = append(pids, pid)
				parents[pid] = true
			}
		}
	}
	return pids
}

// isRuntime keeps an editor or a pager that shows a file of the engine out of what Remove kills.
func isRuntime(cmdline []byte) bool {
	name, _, _ := bytes.Cut(cmdline, []byte{0})
	base := filepath.Base(string(name))
	return base == "dockerd" || strings.HasPrefix(base, "containerd")
}

// Processes are the pids of all processes of the machine.
func Processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Parent is the pid of a process's parent, 0 when the process is gone.
func Parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name is in parentheses and may hold any character.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// endByFile ends the process of a pid file when its command line names dir: pids are used again.
func endByFile(path, dir string) error {
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
	return end(pid)
}

// end kills one process and waits until it is gone, or a zombie that its parent has to bury.
func end(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return Poll(Patience, func() error {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(line) == 0 {
			return nil
		}
		return fmt.Errorf("process %d is still there", pid)
	})
}

// MountsBelow are the mount points at and below dir, in the order in which they were made.
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
