package git

import (
	"cmp"
	"context"
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

// limits bound what a child may take, so that a hostile repository is its own
// trouble and not the machine's. They are set before the program is executed, and
// every process that it starts has them too, each for itself.
type limits struct {
	cpu    time.Duration // of processor time
	memory int64         // bytes of its own; mapped packs do not count
	nice   int           // is added to the plugin's own nice value
}

const (
	// questionCPU is for what a waiting Mount's answer is made of. A question takes
	// milliseconds, and askTimeout ends it after as many seconds.
	questionCPU = 20 * time.Second
	// defaultFetchCPU is for index-pack: one processor resolves the ten million
	// objects of Linux in some ten minutes.
	defaultFetchCPU = 30 * time.Minute
	// defaultMemory is three times what index-pack takes for the whole history of
	// Linux. A tree of ten billion files, which is a download of one kilobyte, takes
	// any amount.
	defaultMemory = 4 << 30
	// The first heavy command of a subject is nicer than the plugin by heavyNice, which
	// leaves three quarters of a busy processor to a question. Each one more that the
	// subject has at that time is nicer by niceStep, a third of the processor of the one
	// before, so that many commands of one subject do not outweigh the one of another.
	heavyNice = 5
	niceStep  = 5
	nicest    = 19
	// killAfter is how long after SIGXCPU, which ends git and names the reason, a
	// process is killed that ignores it.
	killAfter = 5 * time.Second
	// maxFiles is more than git opens: a descriptor for each of 40 packs and their
	// indexes.
	maxFiles = 4096
	// oomScore is of 1000: the kernel ends a child before containers and the engine.
	oomScore = 500
)

// niceOf is how much nicer a heavy command is that holds a slot of this share.
func niceOf(share int) int { return min(heavyNice+niceStep*(share-1), nicest) }

// limitsOf returns the limits of a command whose context has its slot.
func (g *Git) limitsOf(ctx context.Context, c command) limits {
	l := limits{cpu: g.workCPU, memory: g.memory, nice: niceOf(shareOf(ctx))}
	switch {
	case c.question:
		l.cpu, l.nice = questionCPU, 0
	case c.remote:
		l.cpu = g.fetchCPU
	}
	return l
}

// limiter sets the limits of its own process and becomes the program that is
// named after them. It takes a process that is the child already: the plugin has
// no CAP_SYS_RESOURCE, so it can't limit a process of another uid, and a limit that
// is set after the start comes too late for what was forked before.
const limiter = `ulimit -c 0; ulimit -n $1; ulimit -d $2; ulimit -S -t $3; ulimit -H -t $4; shift 4; exec "$@"`

// wrap has cmd run under the limits. Nobody can raise a hard limit: where the
// plugin's own is lower, that one holds.
func (l limits) wrap(cmd *exec.Cmd) error {
	const kilobyte = 1024
	seconds := uint64((l.cpu + time.Second - 1) / time.Second)
	var args []string
	for _, v := range []struct {
		resource    int
		value, unit uint64
	}{
		{unix.RLIMIT_NOFILE, maxFiles, 1},
		{unix.RLIMIT_DATA, uint64(l.memory), kilobyte},
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
func (l limits) yield() error {
	if l.nice == 0 {
		return nil
	}
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	own := 20 - prio // the system call's own way to say it
	return unix.Setpriority(unix.PRIO_PROCESS, 0, own+l.nice)
}

// offer makes the kernel end a process, and what it starts from now on, before
// others when memory is short. It is called by a thread that is not confined,
// because Landlock allows no write to /proc. The process may have ended, which is
// not an error.
func offer(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(oomScore)), 0)
}

// exceeded returns the limit that a failed command has run into, in the words of
// an error, or "". state is nil when the command was never started.
func (l limits) exceeded(state *os.ProcessState, stderr string) string {
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
	case itself(syscall.SIGXCPU), used >= l.cpu/2 && (child(syscall.SIGXCPU) || killed):
		return fmt.Sprintf("it takes more than %v of processor time", l.cpu)
	case killed:
		return "the kernel ended it, as it does when memory is short"
	}
	return ""
}

// outOfMemory says that a command was refused more memory.
func (l limits) outOfMemory() string {
	return fmt.Sprintf("it takes more than %d MiB of memory", l.memory>>20)
}

// setLimits completes g with the limits of c.
func (g *Git) setLimits(c Config) {
	g.memory = cmp.Or(c.Memory, defaultMemory)
	g.workCPU = cmp.Or(c.WorkCPU, g.workTimeout)
	g.fetchCPU = cmp.Or(c.FetchCPU, min(defaultFetchCPU, g.fetchTimeout))
}
