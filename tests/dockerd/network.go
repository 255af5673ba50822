package dockerd

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/environ"
)

// handover is the environment variable in which Isolate hands the descriptor of the machine's
// network namespace to itself.
const handover = "DOCKERD_MACHINE_NETWORK"

// machine is the machine's network namespace; nil in a process that shares it.
var machine *os.File

// Isolate moves this process to a new network namespace that has only a loopback interface, which
// is up. An engine changes the interfaces, the firewall and the settings of its namespace: with
// --bridge=none it deletes docker0, which the machine's own engine needs. The process moves with
// its engine, so that what it serves on loopback can be reached from the plugin and from containers
// with --network host.
//
// The process executes itself again, because only so do all of its threads move. So main or TestMain
// calls Isolate before it begins anything; it returns nil in the new namespace. All children are
// there too, except those of Outside.
func Isolate() error {
	if machine != nil {
		return nil
	}
	if fd, err := strconv.Atoi(os.Getenv(handover)); err == nil {
		// Children isolate themselves anew, and do not need the descriptor.
		unix.CloseOnExec(fd)
		machine = os.NewFile(uintptr(fd), "the machine's network")
		return os.Unsetenv(handover)
	}
	if err := again(); err != nil {
		return fmt.Errorf("a network namespace for engines: %w", err)
	}
	return nil
}

// again executes this program again in a new network namespace. It returns only after an error.
func again() error {
	runtime.LockOSThread() // exec keeps the namespace of the calling thread; never unlocked
	old, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := startLoopback(); err != nil {
		return fmt.Errorf("start loopback: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, os.Args, append(environ.Downloading(), handover+"="+strconv.Itoa(old)))
}

// startLoopback sets the loopback interface of this thread's network namespace up.
func startLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

// Outside makes a command that was not started yet run in the machine's network namespace, for
// example to download what it needs.
func Outside(cmd *exec.Cmd) error {
	if machine == nil {
		return nil
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	cmd.Args = append([]string{nsenter, fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), machine.Fd()), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = nsenter
	return nil
}
