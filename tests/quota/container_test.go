//go:build quota

package quota

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// defaults are the capabilities that Docker gives a container.
var defaults = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_NET_RAW, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// container is a process with copies of the mounts that were there when it began.
type container struct {
	t    *testing.T
	dir  string
	more []int // capabilities
	uid  int
	// remapped means that the container has a user namespace of its own, in which it has all capabilities.
	remapped bool
}

// run runs a script of BusyBox's shell in the container's workspace, and returns what it prints, also on stderr.
func (c container) run(script string) (string, error) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(self, script)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "QUOTA_CONTAINER="+strings.Trim(fmt.Sprint(append(defaults, c.more...)), "[]"))
	if c.remapped {
		cmd.Env = append(cmd.Env, "QUOTA_REMAPPED=1")
	}
	if c.uid != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("QUOTA_UID=", c.uid))
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must is run for a script that succeeds.
func (c container) must(script string) string {
	c.t.Helper()
	out, err := c.run(script)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// firstID is the ID on the machine of the user 0 of a container that is remapped.
const firstID = 100000

// enterRemapped executes the script in a user namespace.
func enterRemapped(script string) error {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstID, Size: 65536}}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, Credential: &syscall.Credential{},
	}
	return cmd.Run()
}

// enter makes this process a container, and executes the script.
func enter(capabilities, script string) error {
	runtime.LockOSThread()
	keep := make(map[int]bool)
	for _, text := range strings.Fields(capabilities) {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil {
			return err
		}
		keep[n] = true
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for n := 0; ; n++ { // root gets those of the bounding set when it executes a program
		if keep[n] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // there are no more
		} else if err != nil {
			return err
		}
	}
	if uid, err := strconv.Atoi(os.Getenv("QUOTA_UID")); err == nil {
		if err := syscall.Setuid(uid); err != nil {
			return err
		}
	}
	return unix.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
}

// store makes a file of holes, and fills it through a mapping. The process gets SIGBUS where there is no room.
func store(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	to, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for n := 0; n < size; n += os.Getpagesize() {
		to[n] = 1
	}
	return errors.Join(unix.Msync(to, unix.MS_SYNC), unix.Munmap(to))
}

// setProject is what chattr -p does: it gives a file another project, by path.
func setProject(path string, id uint32) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var a struct {
		flags, _, _, project, _ uint32
		_                       [8]byte
	}
	const get, set = 0x801c581f, 0x401c5820
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), get, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return fmt.Errorf("get: %w", errno)
	}
	a.project = id
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), set, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return fmt.Errorf("set: %w", errno)
	}
	return nil
}
