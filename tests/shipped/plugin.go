package shipped

import (
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
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

// Config describes the program, its files and its limits.
type Config struct {
	Program    string // the plugin's program, statically linked
	Filesystem string // the root filesystem, build/plugin/rootfs; read only
	Dir        string // a directory that Start creates; its path must be short because it holds sockets
	Memory     int64  // the limit of the memory cgroup, in bytes
	Env        []string
}

// Plugin is a run of the program. Its methods may be called concurrently, except Close.
type Plugin struct {
	*daemon.Daemon
	limit  wait.Limit // of Start and Close
	config Config
	root   *root
	group  *cgroup
	peak   atomic.Int64
	// NoCgroup is the reason why the plugin runs without a memory cgroup; nil if it has one.
	NoCgroup error
}

// Start runs the plugin with an empty data directory on the disk of c.Dir, and returns when it
// answers. The data are not on a loop device, because on Linux 6.18 the kernel threads of a loop
// device wait up to two seconds for a processor that is busy with a scheduling group, such as a
// cgroup, and all commits wait with them.
func Start(l wait.Limit, c Config) (p *Plugin, err error) {
	p = &Plugin{limit: l, config: c}
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
	p.Daemon, err = daemon.Start(l, daemon.Config{
		Under: under, Root: dir, Program: "/usr/bin/helmdeck-repos", Dir: c.Dir, Data: filepath.Join(dir, "data"), Env: c.Env,
		Args: []string{"-data", "/data", "-socket", "/run/docker/plugins/repos.sock", "-git", "/usr/bin/git"},
	})
	return p, err
}

// Close kills the plugin and the processes that it left behind, and removes all of its files and
// mounts. To find what the plugin left behind, call Left first.
func (p *Plugin) Close() error {
	var errs []error
	if p.Daemon != nil {
		_ = p.Kill() // it may have ended
	}
	if p.group != nil {
		errs = append(errs, p.group.remove(p.limit))
	}
	if p.root != nil {
		errs = append(errs, p.root.unmount())
	}
	if disk := filepath.Join(p.config.Dir, "disk"); exists(disk) {
		errs = append(errs, testdisk.Eject(p.limit, disk))
	}
	if errors.Join(errs...) != nil {
		return errors.Join(errs...) // files below a mount that is left must not be deleted
	}
	return os.RemoveAll(p.config.Dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Alive returns an error if the process has ended or does not answer.
func (p *Plugin) Alive(ctx context.Context) error {
	select {
	case <-p.Ended():
		return fmt.Errorf("the plugin was killed, or has ended: %w", p.Err())
	default:
	}
	return p.Call(ctx, "Plugin.Activate", nil, nil)
}

// Children returns the sorted command lines of all living descendants of the plugin's process.
func (p *Plugin) Children() ([]string, error) {
	pids := proc.Descendants(p.Pid())
	if p.group != nil { // the cgroup also has the processes whose parent has ended
		members, err := p.group.procs()
		if err != nil {
			return nil, err
		}
		for _, pid := range members {
			if pid != p.Pid() && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	var lines []string
	for _, pid := range pids {
		if args, err := proc.Args(pid); err == nil {
			lines = append(lines, shorten(args))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// shorten joins the arguments of a process, without git's -c settings. Only a zombie has no
// arguments.
func shorten(args []string) string {
	var words []string
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" {
			i++
			continue
		}
		words = append(words, args[i])
	}
	return cmp.Or(strings.Join(words, " "), "a zombie")
}

// unheld are the values of Held with which an operator may evict a clone. They bind the
// janitor alone, if anybody.
var unheld = []string{janitor.Free.String(), janitor.JustMade.String(), janitor.ExceedsAll.String()}

// Left returns an error that lists the work that is still going on: the plugin's processes, and
// those clones that cannot be evicted and for which interest returns true. nil means that nothing is
// left.
func (p *Plugin) Left(ctx context.Context, interest func(api.Clone) bool) error {
	var errs []error
	children, err := p.Children()
	if len(children) > 0 {
		errs = append(errs, fmt.Errorf("%d processes, such as %.100s", len(children), children[len(children)-1]))
	}
	pinned, cloneErr := p.Pinned(ctx, interest)
	if len(pinned) > 0 {
		errs = append(errs, fmt.Errorf("%d pinned clones, such as %s: %s", len(pinned), pinned[0].Clone, pinned[0].Held))
	}
	return errors.Join(append(errs, err, cloneErr)...)
}

// Pinned returns the clones of interest that could not be evicted now.
func (p *Plugin) Pinned(ctx context.Context, interest func(api.Clone) bool) ([]api.Clone, error) {
	clones, err := p.Admin.Clones(ctx, api.Filter{})
	return slices.DeleteFunc(clones, func(c api.Clone) bool { return slices.Contains(unheld, c.Held) || !interest(c) }), err
}

// AwaitEnd calls Left until it returns nil. It returns Left's last error if ctx or the plugin ends
// first. It calls Left at least once.
func (p *Plugin) AwaitEnd(ctx context.Context, interest func(api.Clone) bool) error {
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

// answerWait is how long the list of the clones may take. It needs no work, so that 10 s are
// plenty.
const answerWait = 10 * time.Second

// WatchPeak measures PeakRSS ten times per second until ctx ends, because the value is lost if the
// plugin is killed.
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

// PeakRSS returns the largest resident set size of the plugin's own process since its start or the
// last ResetPeak, in bytes. After the process has ended it returns the last value that it measured.
func (p *Plugin) PeakRSS() int64 {
	if kib, err := invariant.Status(p.Pid(), "VmHWM"); err == nil {
		p.peak.Store(kib << 10)
	}
	return p.peak.Load()
}

// ResetPeak starts a new measurement of PeakRSS.
func (p *Plugin) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Pid()), []byte("5"), 0)
}

// OOMKills returns how many processes of the plugin, itself included, the kernel's OOM killer has
// killed in the cgroup.
func (p *Plugin) OOMKills() int {
	if p.group == nil {
		return 0
	}
	n, _ := p.group.oomKills()
	return n
}
