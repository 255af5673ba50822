package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound the resources of a child, so that a hostile repository can't harm the
// machine. They are set before the program is executed, and apply separately to each
// process that it starts.
type Limits struct {
	CPU     time.Duration // of processor time
	Setting string        // the setting that decides CPU, for errors; may be empty
	Memory  int64         // private memory in bytes; mapped packs do not count
	Nice    int           // added to the plugin's own nice value
	Lasting int           // in place of Nice for a child that has run for longer than lasting; 0 if that changes nothing
}

const (
	// killAfter is the time between SIGXCPU, which ends git and names the reason, and
	// SIGKILL.
	killAfter = 5 * time.Second
	// maxFiles is more than git needs: a descriptor for each of 40 packs and their
	// indexes.
	maxFiles = 4096
	// oomScore, out of 1000, makes the kernel kill a child before containers and the
	// engine.
	oomScore = 500
	// lasting is longer than most inspections take.
	lasting = time.Second
)

// limiter sets the limits of its own process and then executes the program. The child
// itself must do that: the plugin has no CAP_SYS_RESOURCE, so it can't limit a process of
// another uid, and a limit set after the start misses processes that it forked before.
const limiter = `ulimit -c 0; ulimit -n $1; ulimit -d $2; ulimit -S -t $3; ulimit -H -t $4; shift 4; exec "$@"`

// wrap changes cmd to run under the limits. A hard limit can't be raised: if the plugin's
// own is lower, it applies.
func (l Limits) wrap(cmd *exec.Cmd) error {
	const kilobyte = 1024
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	var args []string
	for _, v := range []struct {
		resource    int
		value, unit uint64
	}{
		{unix.RLIMIT_NOFILE, maxFiles, 1},
		{unix.RLIMIT_DATA, uint64(l.Memory), kilobyte},
		{unix.RLIMIT_CPU, seconds, 1},
		{unix.RLIMIT_CPU, seconds + uint64(killAfter/time.Second), 1},
	} {
		var own unix.Rlimit
		if err := unix.Getrlimit(v.resource, &own); err != nil {
			return fmt.Errorf("getrlimit: %w", err)
		}
		args = append(args, strconv.FormatUint(min(v.value, own.Max)/v.unit, 10))
	}
	cmd.Args = slices.Concat([]string{"sh", "-c", limiter, "sh"}, args, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path = "/bin/sh"
	return nil
}

// lowerPriority raises the nice value of the calling thread and of the processes that it
// starts.
func (l Limits) lowerPriority() error {
	if l.Nice == 0 {
		return nil
	}
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	own := 20 - prio // the system call returns 20 minus nice
	return unix.Setpriority(unix.PRIO_PROCESS, 0, own+l.Nice)
}

// lowerLater raises the nice value of a command's processes when they have lasted. Call stop when it has ended.
func (l Limits) lowerLater(cmd *exec.Cmd) (stop func()) {
	if l.Lasting == 0 {
		return func() {}
	}
	timer := time.AfterFunc(lasting, func() { nicer(cmd, l.Lasting) })
	return func() { timer.Stop() }
}

// preferOOM makes the kernel kill a process, and those that it starts from now on, before
// others when memory is short. Call it on a thread that is not confined, because Landlock
// allows no write to /proc. It is not an error if the process has ended.
func preferOOM(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(oomScore)), 0)
}

// Exceeded returns which limit a failed command exceeded, as an error text, or "". state
// is nil if the command was never started.
func (l Limits) Exceeded(state *os.ProcessState, stderr string) string {
	if state == nil {
		return ""
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return ""
	}
	itself := func(s syscall.Signal) bool { return status.Signaled() && status.Signal() == s }
	// A shell, and git for its children, exit with 128 plus the signal.
	child := func(s syscall.Signal) bool {
		return status.ExitStatus() == 128+int(s) || strings.Contains(stderr, fmt.Sprintf(" died of signal %d\n", s))
	}
	// stderr may contain text of the remote, so check it against the processor time,
	// which includes that of children. Half of the limit is enough, because the limit counts
	// ticks, which may be more than the time used.
	used := state.UserTime() + state.SystemTime()
	killed := itself(syscall.SIGKILL) || child(syscall.SIGKILL)
	switch {
	case itself(syscall.SIGXCPU), used >= l.CPU/2 && (child(syscall.SIGXCPU) || killed):
		said := fmt.Sprintf("it takes more than %v of processor time", l.CPU)
		if l.Setting != "" {
			said += fmt.Sprintf(" (setting %s)", l.Setting)
		}
		return said
	case killed:
		return "the kernel ended it, as it does when memory is short"
	}
	return ""
}

// OutOfMemory returns the error text for a command that was refused more memory.
func (l Limits) OutOfMemory() string {
	return fmt.Sprintf("it takes more than %d MiB of memory (setting GIT_MEMORY)", l.Memory>>20)
}
