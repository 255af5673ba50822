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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/admin"
)

// Patience is how long to wait for what must happen, on a loaded machine too: a bound to fail at, not a measure.
const Patience = 2 * time.Minute

// Build compiles the plugin's program with build tags into dir, static as it ships, and returns its path. It is to be
// called below the module's root.
func Build(dir string, tags ...string) (string, error) {
	program := filepath.Join(dir, "helmdeck-repos")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", strings.Join(tags, ","), "-o", program, "github.com/helmdeck/repos/plugin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return program, nil
}

// Config says what to run.
type Config struct {
	// Under is a command that executes the program, in its own process, with what follows; mostly none.
	Under   []string
	Root    string // what the program takes for /, if Under has it so
	Program string
	// Dir holds the sockets below run/, which bounds its length to some 80 bytes, and the log, which runs append to.
	Dir  string
	Data string   // the data directory; empty is data in Dir
	Git  string   // empty is that of PATH
	Args []string // beside those for the paths
	Env  []string // NAME=value, beside PATH, HOME and MIN_FREE=0
}

// DataDir is the data directory.
func (c Config) DataDir() string { return cmp.Or(c.Data, filepath.Join(c.Dir, "data")) }

// Socket is what the engine calls.
func (c Config) Socket() string { return filepath.Join(c.Dir, "run", "repos.sock") }

// Log is what the program has said in all runs.
func (c Config) Log() string {
	data, err := os.ReadFile(filepath.Join(c.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// EmptyTrash waits until the trash is empty, as long as it gets emptier: it is deleted slowly.
func (c Config) EmptyTrash() error {
	for most := math.MaxInt; most > 0; {
		if err := Poll(func() error {
			entries, err := os.ReadDir(filepath.Join(c.DataDir(), "trash"))
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
	Admin *admin.Client // of the operators' socket

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has; err is set before
	err   error
}

// Start runs the program and returns when it answers. When it ends before, or does not answer within Patience, the
// error has the end of its log.
func Start(c Config) (*Daemon, error) {
	d, err := Run(c)
	if err != nil {
		return nil, err
	}
	err = Poll(func() error {
		select {
		case <-d.ended:
			return Final(fmt.Errorf("the plugin has ended: %w", d.err))
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

// Run is Start without waiting for anything.
func Run(c Config) (*Daemon, error) {
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
	d := &Daemon{Config: c, Caller: Dial(c.Socket()), ended: make(chan struct{})}
	d.Admin = admin.Dial(filepath.Join(filepath.Dir(c.Socket()), "admin.sock"))
	d.root = c.Root
	command := slices.Concat(c.Under, []string{c.Program, "-data", c.DataDir(), "-socket", c.Socket(), "-git", c.Git}, c.Args)
	d.cmd = exec.Command(command[0], command[1:]...)
	// How full this machine's disk is, is no part of a test.
	d.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/", "MIN_FREE=0"}, c.Env...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// A terminal's SIGINT is not for it.
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

// Pid is the process's ID.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Err says how the process has ended; nil while it has not, and after an end without complaint.
func (d *Daemon) Err() error {
	select {
	case <-d.ended:
		return d.err
	default:
		return nil
	}
}

// Stop ends the process as an engine does, and returns when it has. Workspaces stay mounted. One that had ended before
// is an error.
func (d *Daemon) Stop() error {
	d.Client.CloseIdleConnections()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-d.ended
		return fmt.Errorf("the plugin had ended: %w", errors.Join(d.err, err))
	}
	select {
	case <-d.ended:
		return d.err
	case <-time.After(Patience):
		return errors.Join(fmt.Errorf("the plugin did not end within %v after TERM\n%s", Patience, d.tail()), d.Kill())
	}
}

// Kill ends the process as a crash does, and returns when it has. Processes that it has started may go on.
func (d *Daemon) Kill() error {
	d.Client.CloseIdleConnections()
	err := d.cmd.Process.Kill()
	<-d.ended
	return err
}

// tail is the end of the log.
func (d *Daemon) tail() string {
	log := d.Log()
	return log[max(0, len(log)-3000):]
}

// Poll calls check until it succeeds, or returns what Final made, or for Patience, and returns its last error.
func Poll(check func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); ; <-tick.C {
		err := check()
		var f final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &f):
			return f.error
		case time.Now().After(deadline):
			return fmt.Errorf("still after %v: %w", Patience, err)
		}
	}
}

type final struct{ error }

// Final has Poll give up at once with an error.
func Final(err error) error { return final{err} }
