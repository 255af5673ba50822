package git

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The main goroutine stays on the process's first thread, so that no other
// goroutine ever locks, and confines for good, the thread whose end would be
// the end of the process.
func init() { runtime.LockOSThread() }

// confinement is what a child may touch beyond the system's programs, and how much
// it may take.
type confinement struct {
	inherited   bool   // this process is confined: there is nothing to add
	abi         int    // of Landlock; 0: the kernel has none
	root        string // where the system's files are; empty: /
	read, write []string
	limits      limits
}

// systemRead is what git, its transports and the resolver read.
var systemRead = []string{
	"/usr", "/bin", "/lib", "/lib64",
	"/etc/ssl", "/etc/ca-certificates", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services",
	"/etc/ld.so.cache", "/dev/urandom",
}

// systemWrite is what they write besides their task's own directories.
var systemWrite = []string{"/dev/null"}

// confined starts cmd from a thread that gave up everything that it does not
// need, and waits for it. The thread can't be given back to the scheduler after
// that: the goroutine ends while it is locked to it, and the runtime ends the
// thread. Start and Wait belong to the same thread, for Pdeathsig fires at the
// end of the thread that forked, not of the process.
func confined(cmd *exec.Cmd, c confinement) error {
	if !c.inherited {
		if err := c.limits.wrap(cmd); err != nil {
			return fmt.Errorf("limit %s: %w", cmd.Path, err)
		}
	}
	started, offered := make(chan int, 1), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if c.inherited {
			done <- cmd.Run()
			return
		}
		if err := errors.Join(c.limits.yield(), c.apply()); err != nil {
			done <- fmt.Errorf("confine git: %w", err)
			return
		}
		if err := cmd.Start(); err != nil {
			done <- err
			return
		}
		started <- cmd.Process.Pid
		<-offered // before Wait, after which the ID may be another process's
		err := cmd.Wait()
		endGroup(cmd.Process.Pid)
		done <- err
	}()
	select {
	case pid := <-started:
		offer(pid)
		close(offered)
		return <-done
	case err := <-done:
		return err
	}
}

// adopt makes this process the parent of what its children leave behind, as it is in
// a container of its own anyway: so endGroup can wait for them.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// endGroup ends what is left of a command's process group, and waits for it:
// transports such as git-remote-https outlive a killed parent.
func endGroup(group int) {
	if err := syscall.Kill(-group, syscall.SIGKILL); err == syscall.ESRCH {
		return // zombies count as members: nothing is left at all
	}
	for {
		if _, err := syscall.Wait4(-group, nil, 0, nil); err != nil && err != syscall.EINTR {
			return // ECHILD: all reaped, or not ours
		}
	}
}

// apply confines the calling thread.
func (c confinement) apply() error {
	for cap := uintptr(0); cap <= unix.CAP_LAST_CAP; cap++ {
		// EINVAL: the kernel is older than this capability.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, cap, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", cap, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("clear inheritable capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no-new-privileges: %w", err)
	}
	if c.abi == 0 {
		return nil
	}
	return c.landlock()
}

// landlockABI returns the version of Landlock that the kernel offers, 0 for none.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(abi), nil
	case unix.ENOSYS, unix.EOPNOTSUPP:
		return 0, nil
	}
	return 0, fmt.Errorf("landlock: %w", errno)
}

const (
	accessFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	accessRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	accessV1   = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // all rights of the first version
)

// handled returns the file system rights that this version knows.
func handled(abi int) uint64 {
	rights := uint64(accessV1)
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

func (c confinement) landlock() error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(c.abi)}
	size := unsafe.Sizeof(attr.Handled_access_fs) // the first version's struct
	if c.abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	all := handled(c.abi)
	for _, grant := range []struct {
		root     string
		paths    []string
		access   uint64
		optional bool
	}{
		{c.root, systemRead, accessRead, true},
		{c.root, systemWrite, accessFile, false},
		{"", c.read, accessRead, false},
		{"", c.write, all, false},
	} {
		for _, path := range grant.paths {
			err := allow(int(fd), filepath.Join(grant.root, path), grant.access&all)
			if err != nil && !(grant.optional && errors.Is(err, os.ErrNotExist)) {
				return fmt.Errorf("landlock %s: %w", path, err)
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock restrict: %w", errno)
	}
	return nil
}

// allow adds a rule for path and what is below it; of a file, only the rights
// that a file can have.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= accessFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
