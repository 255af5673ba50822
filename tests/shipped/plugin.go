package shipped

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
)

// Config says what to run, and on what.
type Config struct {
	Program    string // the plugin's, static
	Filesystem string // its root filesystem: build/plugin/rootfs, which is not written to
	Dir        string // a directory that Start makes; short, for the sockets are in it
	Memory     int64  // of the cgroup, in bytes
	Env        []string
}

// Plugin is a run of the program. Its methods may be called concurrently, but for Close.
type Plugin struct {
	*daemon.Daemon
	config Config
	root   *root
	group  *cgroup
	peak   atomic.Int64
	// NoCgroup says why there is no memory cgroup; nil if there is one.
	NoCgroup error
}

// Start runs the plugin with an empty data directory on the disk of c.Dir, and returns when it answers. A loop device would
// stand in between: on Linux 6.18 its kernel threads wait for up to two seconds for a processor on which something computes
// in a scheduling group, such as a cgroup, and all commits wait with them.
func Start(c Config) (p *Plugin, err error) {
	p = &Plugin{config: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	disk, run := filepath.Join(c.Dir, "disk"), filepath.Join(c.Dir, "run")
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		return p, err
	}
	if err := testdisk.Directory(disk); err != nil {
		return p, err
	}
	program, err := filepath.Abs(c.Program)
	if err != nil {
		return p, err
	}
	if p.group, p.NoCgroup = newCgroup("hd-"+strconv.Itoa(os.Getpid())+"-"+filepath.Base(c.Dir), c.Memory); p.NoCgroup != nil {
		p.group = nil
	}
	dir := filepath.Join(c.Dir, "root")
	if p.root, err = mountRoot(dir, c.Filesystem, program, run, disk, p.group); err != nil {
		return p, err
	}
	under := []string{"setpriv", "--bounding-set", capabilities, "--inh-caps", "-all", "chroot", dir}
	if p.group != nil {
		under = append([]string{"sh", "-ec", `echo $$ >"$0"; exec "$@"`, filepath.Join(p.group.dir, "cgroup.procs")}, under...)
	}
	p.Daemon, err = daemon.Start(daemon.Config{
		Under: under, Root: dir, Program: "/usr/bin/helmdeck-repos", Dir: c.Dir, Data: filepath.Join(dir, "data"), Env: c.Env,
		Args: []string{"-data", "/data", "-socket", "/run/docker/plugins/repos.sock", "-git", "/usr/bin/git"},
	})
	return p, err
}

// Close ends the plugin, kills what it has left, and takes everything away. What it should not have left is for Left to
// say, before.
func (p *Plugin) Close() error {
	var errs []error
	if p.Daemon != nil {
		_ = p.Kill() // it may have ended
	}
	if p.group != nil {
		errs = append(errs, p.group.remove())
	}
	if p.root != nil {
		errs = append(errs, p.root.unmount())
	}
	if disk := filepath.Join(p.config.Dir, "disk"); exists(disk) {
		errs = append(errs, testdisk.Eject(disk))
	}
	if errors.Join(errs...) != nil {
		return errors.Join(errs...) // what is mounted still must not be deleted
	}
	return os.RemoveAll(p.config.Dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Alive says how the process that was started has ended, or that it does not answer.
func (p *Plugin) Alive(ctx context.Context) error {
	select {
	case <-p.Ended():
		return fmt.Errorf("the plugin was killed, or has ended: %w", p.Err())
	default:
	}
	return p.Call(ctx, "Plugin.Activate", nil, nil)
}

// Children are the command lines, sorted, of the processes that the plugin has started, and those of theirs, that are there.
func (p *Plugin) Children() ([]string, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	parents := make(map[int]int)
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		// The name is in parentheses and may hold any character.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	found := make(map[int]bool)
	for pid := range parents {
		for above := pid; above != 0 && !found[pid]; above = parents[above] {
			found[pid] = above == p.Pid() && pid != above
		}
	}
	if p.group != nil { // also those that have lost their parent
		pids, err := p.group.procs()
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			found[pid] = pid != p.Pid()
		}
	}
	var left []string
	for pid, ok := range found {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); ok && err == nil {
			left = append(left, short(string(line)))
		}
	}
	slices.Sort(left)
	return left, nil
}

// short is a command line without the settings of git. One that has ended, and that nobody has waited for, has none.
func short(line string) string {
	var words []string
	args := strings.Split(strings.TrimRight(line, "\x00"), "\x00")
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" {
			i++
			continue
		}
		words = append(words, args[i])
	}
	return cmp.Or(strings.Join(words, " "), "a zombie")
}

// Locks are the files of locks/ that the plugin holds a lock of.
func (p *Plugin) Locks() ([]string, error) {
	dir := filepath.Join(p.DataDir(), "locks")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	held, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		inode := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
		for line := range strings.Lines(string(held)) {
			// 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF, and "->" after the number for one who waits
			f := strings.Fields(line)
			if len(f) > 5 && f[4] == strconv.Itoa(p.Pid()) && strings.HasSuffix(f[5], inode) {
				list = append(list, e.Name())
			}
		}
	}
	return list, nil
}

// unheld are the holds by which only the janitor is bound.
var unheld = []janitor.Hold{janitor.Free, janitor.JustMade, janitor.ExceedsAll}

// Left says what work is going on, or can't be evicted, of the clones that are of interest: a process of the plugin's, a
// lock, a clone that something holds. nil is nothing.
func (p *Plugin) Left(ctx context.Context, interest func(janitor.CloneInfo) bool) error {
	var errs []error
	children, err := p.Children()
	if len(children) > 0 {
		errs = append(errs, fmt.Errorf("%d processes, such as %.100s", len(children), children[len(children)-1]))
	}
	locks, lockErr := p.Locks()
	if len(locks) > 0 {
		errs = append(errs, fmt.Errorf("%d locks, such as %s", len(locks), locks[0]))
	}
	clones, cloneErr := p.Admin.Clones(ctx)
	pinned := slices.DeleteFunc(clones, func(c janitor.CloneInfo) bool { return slices.Contains(unheld, c.Held) || !interest(c) })
	if len(pinned) > 0 {
		errs = append(errs, fmt.Errorf("%d pinned clones, such as %s: %s", len(pinned), pinned[0].Clone, pinned[0].Held))
	}
	return errors.Join(append(errs, err, lockErr, cloneErr)...)
}

// AwaitEnd waits until nothing is Left, or until ctx ends, and says what still is. It looks at least once.
func (p *Plugin) AwaitEnd(ctx context.Context, interest func(janitor.CloneInfo) bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
		err := p.Left(asking, interest)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Ended():
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// answerWait is how long a list of the clones may take, which needs no work.
const answerWait = 10 * time.Second

// WatchPeak notes PeakRSS until ctx ends, for a plugin that may be killed meanwhile.
func (p *Plugin) WatchPeak(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		p.PeakRSS()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// PeakRSS is the most memory that the plugin's own process has had since it began, or since the last ResetPeak, in bytes;
// of one that has ended, what was last seen.
func (p *Plugin) PeakRSS() int64 {
	if kib, err := invariant.Status(p.Pid(), "VmHWM"); err == nil {
		p.peak.Store(kib << 10)
	}
	return p.peak.Load()
}

// ResetPeak has PeakRSS begin anew.
func (p *Plugin) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Pid()), []byte("5"), 0)
}

// Kills is how many processes of the plugin, itself included, the kernel has killed for want of memory in its cgroup.
func (p *Plugin) Kills() int {
	if p.group == nil {
		return 0
	}
	n, _ := p.group.kills()
	return n
}
