// Package sandbox runs a program as another uid, without capabilities, with
// no-new-privileges, within limits of what it may take, confined by Landlock to the
// directories of its task where the kernel has it, in a process group of its own that is
// gone when the call returns.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sandbox is where programs run. It is immutable, and safe for concurrent use.
type Sandbox struct {
	inherited bool   // this process is confined: there is nothing to add
	abi       int    // of Landlock; 0: the kernel has none
	root      string // where the system's files are; empty: /
}

// New probes what the kernel offers to confine a child, and makes this process the parent
// of what its children leave behind, as it is in a container of its own anyway: so Run can
// wait for them. The root directory of children is root; empty means this process's.
func New(root string) (*Sandbox, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	abi, err := landlockABI()
	return &Sandbox{abi: abi, root: root}, err
}

// Inherited is the sandbox of a process that runs in one itself: its children are in its
// process group, and have no more rights.
func Inherited() *Sandbox { return &Sandbox{inherited: true} }

// String says in a few words how children are confined, for the log.
func (s *Sandbox) String() string {
	if s.abi == 0 {
		return "uid, no capabilities, no-new-privileges (this kernel has no Landlock)"
	}
	return fmt.Sprintf("uid, no capabilities, no-new-privileges, Landlock ABI %d", s.abi)
}

// Task says what a child may touch beyond the system's programs, and how much it may
// take. In an inherited sandbox all of it is the parent's.
type Task struct {
	UID, GID    uint32
	Read, Write []string // directories, or files
	Limits      Limits
}

// stopGrace is how long a child has between TERM, which lets git remove its lock files
// and temporary packs, and KILL.
const stopGrace = 5 * time.Second

// systemRead is what git, its transports and the resolver read.
var systemRead = []string{
	"/usr", "/bin", "/lib", "/lib64",
	"/etc/ssl", "/etc/ca-certificates", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services",
	"/etc/ld.so.cache", "/dev/urandom",
}

// systemWrite is what they write besides their task's own directories.
var systemWrite = []string{"/dev/null"}

// Run runs a command that was made with a context, and returns what its Wait does. When
// the context ends first, the whole process group is asked to end, then killed; either
// way nothing of it is left when Run returns.
func (s *Sandbox) Run(cmd *exec.Cmd, t Task) error {
	cmd.WaitDelay = stopGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, offered, done := make(chan int, 1), make(chan struct{}), make(chan error, 1)
	run := func() error {
		if err := errors.Join(t.Limits.yield(), s.confine(t)); err != nil {
			return fmt.Errorf("confine the child: %w", err)
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		started <- cmd.Process.Pid
		<-offered // before Wait, after which the ID may be another process's
		err := cmd.Wait()
		endGroup(cmd.Process.Pid)
		return err
	}
	if s.inherited { // in our process group, as who we are
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		run = cmd.Run
	} else {
		cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Chroot = true, s.root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: t.UID, Gid: t.GID}
		cmd.Cancel = func() error { return terminate(cmd) }
		if err := t.Limits.wrap(cmd); err != nil {
			return fmt.Errorf("limit %s: %w", cmd.Path, err)
		}
	}
	onThread(func() { done <- run() })
	select {
	case pid := <-started:
		offer(pid)
		close(offered)
		return <-done
	case err := <-done:
		return err
	}
}

// onThread calls f in a goroutine that has a thread to itself, which ends with it: the
// thread can't be given back to the scheduler when it gave up what it does not need.
// Start and Wait belong to the same thread, because Pdeathsig fires at the end of the
// thread that forked, not of the process.
//
// It is never the process's first thread, which does not end, and whose rights the kernel
// takes for the process's: a goroutine that is on it holds it until f is done elsewhere.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // and not unlocked, so the thread ends
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			f()
		}()
		<-done
		runtime.UnlockOSThread()
	}()
}

// terminate asks a command's process group to end, also when it is stopped.
func terminate(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	return err
}

// Signal sends a signal to the process group of a command that runs here, or has. It
// reports false when the command has ended: its ID may be another group's by now.
func Signal(cmd *exec.Cmd, sig syscall.Signal) bool {
	return cmd.Process.Signal(syscall.Signal(0)) == nil && syscall.Kill(-cmd.Process.Pid, sig) == nil
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

// confine confines the calling thread.
func (s *Sandbox) confine(t Task) error {
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
	if s.abi == 0 {
		return nil
	}
	return s.landlock(t)
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

func (s *Sandbox) landlock(t Task) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(s.abi)}
	size := unsafe.Sizeof(attr.Handled_access_fs) // the first version's struct
	if s.abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	all := handled(s.abi)
	for _, grant := range []struct {
		root     string
		paths    []string
		access   uint64
		optional bool
	}{
		{s.root, systemRead, accessRead, true},
		{s.root, systemWrite, accessFile, false},
		{"", t.Read, accessRead, false},
		{"", t.Write, all, false},
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
