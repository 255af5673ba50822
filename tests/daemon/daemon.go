package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/environ"
	"github.com/helmdeck/repos/tests/wait"
)

// Build compiles the plugin's program with build tags into dir, statically linked as it ships, and
// returns its path. The working directory must be below the module's root.
func Build(dir string, tags ...string) (string, error) {
	program := filepath.Join(dir, "helmdeck-repos")
	const module = "github.com/helmdeck/repos" // which may be a dependency of the test's own module
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("look for the module %s: %w", module, err)
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", strings.Join(tags, ","), "-o", program, module+"/plugin")
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(environ.Downloading(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return program, nil
}

// Config describes the program to run.
type Config struct {
	// Under is a command that changes its environment and then executes the program that follows on
	// its command line, in the same process. It is optional.
	Under   []string
	Root    string // the program's root directory if Under changes it
	Program string
	// Dir holds the log, to which each run appends, and the sockets below run/. Because of the
	// sockets it may have about 80 bytes at most.
	Dir  string
	Data string   // the data directory; default: data in Dir
	Git  string   // default: git from PATH
	Args []string // in addition to the arguments for the paths
	Env  []string // NAME=value, in addition to PATH, HOME and MIN_FREE=0
}

// DataDir returns the data directory.
func (c Config) DataDir() string { return cmp.Or(c.Data, filepath.Join(c.Dir, "data")) }

// Socket returns the path of the socket that an engine calls.
func (c Config) Socket() string { return filepath.Join(c.Dir, "run", "repos.sock") }

// Log returns the log of all runs.
func (c Config) Log() string {
	data, err := os.ReadFile(filepath.Join(c.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// AwaitEmptyTrash waits until the trash is empty. The wait starts again whenever an entry is gone,
// because the plugin deletes the trash slowly.
func (d *Daemon) AwaitEmptyTrash() error {
	for most := math.MaxInt; most > 0; {
		if err := wait.Until(d.Limit, func() error {
			entries, err := os.ReadDir(filepath.Join(d.DataDir(), "trash"))
			switch {
			case err != nil:
				return err
			case len(entries) >= most:
				return fmt.Errorf("the trash has %d entries, such as %s", len(entries), entries[0])
			}
			most = len(entries)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Daemon is a run of the program.
type Daemon struct {
	Config
	*Caller
	Limit wait.Limit  // of Start, Stop and AwaitEmptyTrash
	Admin *api.Client // of the operators' socket

	cmd     *exec.Cmd
	earlier int           // bytes of the log that are of earlier runs
	ended   chan struct{} // closed when the process has ended, after err is set
	err     error
}

// Start runs the program and returns when it answers. If it ends first, or does not answer within
// the limit, the error contains the end of its log.
func Start(l wait.Limit, c Config) (*Daemon, error) {
	d, err := Run(l, c)
	if err != nil {
		return nil, err
	}
	err = wait.Until(l, func() error {
		select {
		case <-d.ended:
			return wait.Final(fmt.Errorf("the plugin has ended: %w", d.err))
		default:
		}
		return d.Call(context.Background(), "Plugin.Activate", nil, nil)
	})
	if err != nil {
		_ = d.Kill() // it may have ended
		return nil, fmt.Errorf("start the plugin: %w\n%s", err, d.tail())
	}
	return d, nil
}

// Run is Start, but does not wait for an answer.
func Run(l wait.Limit, c Config) (*Daemon, error) {
	if c.Git == "" {
		git, err := exec.LookPath("git")
		if err != nil {
			return nil, err
		}
		c.Git = git
	}
	log, err := os.OpenFile(filepath.Join(c.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	d := &Daemon{Config: c, Caller: Dial(c.Socket()), Limit: l, earlier: int(info.Size()), ended: make(chan struct{})}
	d.Admin = api.Dial(filepath.Join(filepath.Dir(c.Socket()), "admin.sock"))
	d.root = c.Root
	command := slices.Concat(c.Under, []string{c.Program, "-data", c.DataDir(), "-socket", c.Socket(), "-git", c.Git}, c.Args)
	d.cmd = exec.Command(command[0], command[1:]...)
	// Tests must not depend on the free space of the machine's disk.
	d.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/", "MIN_FREE=0"}, c.Env...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// A terminal's SIGINT must not reach the program.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the plugin: %w", err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.ended)
	}()
	return d, nil
}

// metricsLine matches the log line about METRICS_ADDR, as text and as JSON.
var metricsLine = regexp.MustCompile(`"metrics: listening".* addr="([^"]+)"|"addr":"([^"]+)".*"metrics: listening"`)

// MetricsAddr waits until the program serves METRICS_ADDR, and returns the address that its log names:
// with port 0 the kernel chooses one.
func (d *Daemon) MetricsAddr() (addr string, err error) {
	err = wait.Until(d.Limit, func() error {
		log := d.Log()
		found := metricsLine.FindStringSubmatch(log[min(d.earlier, len(log)):])
		if found == nil {
			return errors.New("the log does not name the address of the metrics")
		}
		addr = cmp.Or(found[1], found[2])
		return nil
	})
	return addr, err
}

// Pid returns the process ID.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Ended returns a channel that is closed when the process has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Err returns how the process ended: nil while it runs, and if it exited with code 0.
func (d *Daemon) Err() error {
	select {
	case <-d.ended:
		return d.err
	default:
		return nil
	}
}

// Stop ends the process as an engine does, and waits for its end. Workspaces stay mounted. Stop
// returns an error if the process had ended before.
func (d *Daemon) Stop() error {
	d.Client.CloseIdleConnections()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-d.ended
		return fmt.Errorf("the plugin had ended: %w", errors.Join(d.err, err))
	}
	most := wait.Most(d.Limit)
	select {
	case <-d.ended:
		return d.err
	case <-time.After(most):
		return errors.Join(fmt.Errorf("the plugin did not end within %v after SIGTERM\n%s", most, d.tail()), d.Kill())
	}
}

// Kill ends the process as a crash does, and waits for its end. Processes that it started may still
// run.
func (d *Daemon) Kill() error {
	d.Client.CloseIdleConnections()
	err := d.cmd.Process.Kill()
	<-d.ended
	return err
}

// tail returns the end of the log.
func (d *Daemon) tail() string {
	log := d.Log()
	return log[max(0, len(log)-3000):]
}

// Checkpoint makes a checkpoint of a workspace that goes on, with both passes.
func (d *Daemon) Checkpoint(ctx context.Context, workspace string, n api.Note) (made api.Checkpoint, err error) {
	draft, err := d.Admin.Draft(ctx, workspace, n)
	if err == nil {
		_, err = d.Admin.CatchUp(ctx, draft.ID)
	}
	if err == nil {
		made, err = d.Admin.Keep(ctx, draft.ID)
	}
	return made, err
}
