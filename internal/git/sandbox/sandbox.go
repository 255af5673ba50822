// Package sandbox runs a program as another uid, without capabilities, with
// no-new-privileges, and under resource limits. If the kernel has Landlock, it confines
// the program to the directories of its task. The program has its own process group, which
// has ended when the call returns.
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

// Sandbox runs programs. It is immutable, and safe for concurrent use.
type Sandbox struct {
	inherited bool   // this process is confined already
	abi       int    // Landlock's version; 0 means that the kernel has no Landlock
	root      string // root directory of children; empty means this process's
}

// New finds out how the kernel can confine a child, and makes this process the subreaper
// of its descendants, so that Run can wait for them. root is the root directory of
// children; empty means this process's.
func New(root string) (*Sandbox, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	abi, err := landlockABI()
	return &Sandbox{abi: abi, root: root}, err
}

// Inherited returns the sandbox of a process that runs in one: its children stay in its
// process group, and have the same rights.
func Inherited() *Sandbox { return &Sandbox{inherited: true} }

// String describes for the log how children are confined.
func (s *Sandbox) String() string {
	if s.abi == 0 {
		return "uid, no capabilities, no-new-privileges (this kernel has no Landlock)"
	}
	return fmt.Sprintf("uid, no capabilities, no-new-privileges, Landlock ABI %d", s.abi)
}

// Landlock returns the version of the kernel's Landlock, 0 without.
func (s *Sandbox) Landlock() int { return s.abi }

// Task says which files a child may use besides the system's programs, and its limits. An
// inherited sandbox ignores it.
type Task struct {
	UID, GID    uint32
	Read, Write []string // directories, or files
	Limits      Limits
}

// stopGrace is the time between TERM, on which git removes its lock files and temporary
// packs, and KILL.
const stopGrace = 5 * time.Second

// systemRead lists the files that git, its transports and the resolver read.
var systemRead = []string{
	"/usr", "/bin", "/lib", "/lib64",
	"/etc/ssl", "/etc/ca-certificates", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services",
	"/etc/ld.so.cache", "/dev/urandom", Names,
}

// Names is the directory of the files that /etc/resolv.conf and /etc/hosts of a managed plugin link
// to. A child may read the directory, and so also a file that is put there while the child runs.
const Names = "/run/helmdeck-repos-names"

// systemWrite lists the files that these programs write outside the task's directories.
var systemWrite = []string{"/dev/null"}

// Run runs a command that was made with a context, and returns the result of its Wait, and
// how many bytes the processes of its group wrote to disks; zero if the kernel does not
// count them. If the context ends first, the process group gets TERM, then KILL. In any
// case no process of the group is left when Run returns.
func (s *Sandbox) Run(cmd *exec.Cmd, t Task) (wrote int64, err error) {
	cmd.WaitDelay = stopGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, scored, done := make(chan int, 1), make(chan struct{}), make(chan error, 1)
	run := func() error {
		if err := errors.Join(t.Limits.lowerPriority(), s.confine(t)); err != nil {
			return fmt.Errorf("confine the child: %w", err)
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		started <- cmd.Process.Pid
		<-scored // must precede Wait, after which the ID may be reused
		err := cmd.Wait()
		wrote = endGroup(cmd.Process.Pid)
		return err
	}
	if s.inherited { // same process group and uid
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		run = cmd.Run
	} else {
		cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Chroot = true, s.root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: t.UID, Gid: t.GID}
		cmd.Cancel = func() error { return terminate(cmd) }
		if err := t.Limits.wrap(cmd); err != nil {
			return 0, fmt.Errorf("limit %s: %w", cmd.Path, err)
		}
	}
	onThread(func() { done <- run() })
	select {
	case pid := <-started:
		preferOOM(pid)
		close(scored)
		stop := t.Limits.lowerLater(cmd)
		err = <-done
		stop()
	case err = <-done:
	}
	if cmd.ProcessState != nil { // it was started
		if usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage); usage != nil {
			wrote += usage.Oublock * block
		}
	}
	return wrote, err
}

// block is the unit of bytes in a process's usage.
const block = 512

// onThread calls f in a goroutine with its own thread, which ends with it: a thread that
// dropped its rights can't be returned to the scheduler. Start and Wait must run on the
// same thread, because Pdeathsig fires when the thread that forked ends, not the process.
//
// The first thread of the process must not run f, because it does not end, and the kernel
// takes its rights for those of the process. A goroutine that happens to be on the first
// thread blocks it while f runs on another thread.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends
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

// terminate sends TERM to a command's process group, and continues it if it is stopped.
func terminate(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	return err
}

// Signal sends a signal to the process group of a command that Run started. It returns
// false if the command has ended, because its ID may be reused.
func Signal(cmd *exec.Cmd, sig syscall.Signal) bool {
	return cmd.Process.Signal(syscall.Signal(0)) == nil && syscall.Kill(-cmd.Process.Pid, sig) == nil
}

// endGroup kills the remaining processes of a command's group, and waits for them, because
// transports such as git-remote-https outlive a killed parent. It returns how many bytes
// they wrote to disks.
func endGroup(group int) (wrote int64) {
	if err := syscall.Kill(-group, syscall.SIGKILL); err == syscall.ESRCH {
		return 0 // zombies count as members, so nothing is left
	}
	for {
		var usage syscall.Rusage
		switch _, err := syscall.Wait4(-group, nil, 0, &usage); err {
		case nil:
			wrote += usage.Oublock * block
		case syscall.EINTR:
		default:
			return wrote // ECHILD: all are reaped, or are not children of this process
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

// landlockABI returns the kernel's Landlock version, or 0 if the kernel has no Landlock.
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

// handled returns the file system rights of a Landlock version.
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

// allow adds a rule for path and everything below it. A file gets only the rights that
// apply to files.
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
