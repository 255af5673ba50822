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

// Limits bound what a child may take, so that a hostile repository is its own
// trouble and not the machine's. They are set before the program is executed, and
// every process that it starts has them too, each for itself.
type Limits struct {
	CPU    time.Duration // of processor time
	Memory int64         // bytes of its own; mapped packs do not count
	Nice   int           // is added to the plugin's own nice value
}

const (
	// killAfter is how long after SIGXCPU, which ends git and names the reason, a
	// process is killed that ignores it.
	killAfter = 5 * time.Second
	// maxFiles is more than git opens: a descriptor for each of 40 packs and their
	// indexes.
	maxFiles = 4096
	// oomScore is of 1000: the kernel ends a child before containers and the engine.
	oomScore = 500
)

// limiter sets the limits of its own process and becomes the program that is
// named after them. It takes a process that is the child already: the plugin has
// no CAP_SYS_RESOURCE, so it can't limit a process of another uid, and a limit that
// is set after the start comes too late for what was forked before.
const limiter = `ulimit -c 0; ulimit -n $1; ulimit -d $2; ulimit -S -t $3; ulimit -H -t $4; shift 4; exec "$@"`

// wrap has cmd run under the limits. Nobody can raise a hard limit: where the
// plugin's own is lower, that one holds.
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

// yield makes the calling thread, and what it starts, give way to others.
func (l Limits) yield() error {
	if l.Nice == 0 {
		return nil
	}
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	own := 20 - prio // the system call's own way to say it
	return unix.Setpriority(unix.PRIO_PROCESS, 0, own+l.Nice)
}

// offer makes the kernel end a process, and what it starts from now on, before
// others when memory is short. It is called by a thread that is not confined,
// because Landlock allows no write to /proc. The process may have ended, which is
// not an error.
func offer(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(oomScore)), 0)
}

// Exceeded returns the limit that a failed command has run into, in the words of
// an error, or "". state is nil when the command was never started.
func (l Limits) Exceeded(state *os.ProcessState, stderr string) string {
	if state == nil {
		return ""
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return ""
	}
	itself := func(s syscall.Signal) bool { return status.Signaled() && status.Signal() == s }
	// A shell, and git for what it executes, end with 128 and the signal.
	child := func(s syscall.Signal) bool {
		return status.ExitStatus() == 128+int(s) || strings.Contains(stderr, fmt.Sprintf(" died of signal %d\n", s))
	}
	// A remote's words may be among stderr. They are believed only if they can be
	// so: a process's time has that of its children in it. Half, because a limit
	// counts ticks, which may be more than what was used.
	used := state.UserTime() + state.SystemTime()
	killed := itself(syscall.SIGKILL) || child(syscall.SIGKILL)
	switch {
	case itself(syscall.SIGXCPU), used >= l.CPU/2 && (child(syscall.SIGXCPU) || killed):
		return fmt.Sprintf("it takes more than %v of processor time", l.CPU)
	case killed:
		return "the kernel ended it, as it does when memory is short"
	}
	return ""
}

// OutOfMemory says that a command was refused more memory.
func (l Limits) OutOfMemory() string {
	return fmt.Sprintf("it takes more than %d MiB of memory", l.Memory>>20)
}
