// Package dockerd starts Docker engines for tests and benchmarks, and installs the managed plugin
// in them. Each engine has its own data directory, socket and containerd. All engines of a process
// share its network namespace, which is not the machine's: Isolate makes it.
//
// It never touches the host's own engine. All files of an engine are below the directory that New
// is given, and Close leaves no process, mount or file behind; Remove does the same for an engine
// whose owner was killed. The methods of an Engine must not be called concurrently, except Try and
// Command. The package needs root, dockerd, containerd and docker: the machine's own, or those that
// Choose selects.
package dockerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/wait"
)

// Engine is a Docker engine.
type Engine struct {
	// Plugin is the ID of the installed plugin.
	Plugin string

	limit   wait.Limit // of all that the engine is waited for
	dir     string
	network string // the file of the engine's network namespace; empty: this process's namespace
	flags   []string
	server  *exec.Cmd
	exited  chan struct{}
	began   int64 // the offset in the log at which this run of the server begins

	// containerd is the separate containerd; nil if the engine starts its own.
	containerd      *exec.Cmd
	containerdEnded chan struct{}
}

// New creates dir and starts an engine in it, with additional flags for dockerd. After an error
// nothing is left behind.
func New(l wait.Limit, dir string, flags ...string) (*Engine, error) {
	return (&Engine{limit: l, dir: dir, flags: flags}).setUp()
}

// NewIn is New in the network namespace of a file. The engine still shares this process's mount
// namespace.
func NewIn(l wait.Limit, network, dir string, flags ...string) (*Engine, error) {
	return (&Engine{limit: l, dir: dir, network: network, flags: flags}).setUp()
}

// setUp creates the engine's directory, calls before, and starts the engine. After an error nothing
// is left behind.
func (e *Engine) setUp(before ...func() error) (*Engine, error) {
	if err := errors.Join(os.MkdirAll(e.Path("config"), 0o755), os.MkdirAll(e.Path("tmp"), 0o700), onDisk(e.dir)); err != nil {
		return nil, err
	}
	// Without its own file the engine reads the host's, and refuses a setting that both the file
	// and a flag contain.
	if err := os.WriteFile(e.Path("daemon.json"), []byte("{}"), 0o644); err != nil {
		return nil, err
	}
	for _, step := range append(before, e.Start) {
		if err := step(); err != nil {
			return nil, errors.Join(err, fmt.Errorf("the engine's log: %s", Tail(e.Path("log"), 30, Relevant)), e.Close())
		}
	}
	return e, nil
}

// Path returns a path below the engine's directory: "log" is its log, "data" its data.
func (e *Engine) Path(elem ...string) string {
	return filepath.Join(append([]string{e.dir}, elem...)...)
}

// Start starts the engine on its data and waits until its API answers.
func (e *Engine) Start() error {
	log, err := os.OpenFile(e.Path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if e.began, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	command := []string{"dockerd"}
	if e.network == "" && machine == nil {
		return errors.New("an engine would change the machine's network: call Isolate first")
	}
	if e.network != "" {
		command = []string{"nsenter", "--net=" + e.network, "dockerd"}
	}
	command = append(command,
		"--config-file", e.Path("daemon.json"), "--host", "unix://"+e.Path("sock"),
		"--data-root", e.Path("data"), "--exec-root", e.Path("exec"), "--pidfile", e.Path("pid"),
		"--bridge=none", "--iptables=false") // it deletes the docker0 of its network namespace
	e.server = exec.Command(command[0], append(command[1:], e.flags...)...)
	e.server.Env = append(os.Environ(), "TMPDIR="+e.Path("tmp")) // where its containerd writes stacks when it hangs
	e.server.Stdout, e.server.Stderr = log, log
	// A Ctrl-C in the terminal must reach only the tests, which then stop the engine in order.
	e.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.server.Start(); err != nil {
		return err
	}
	e.exited = make(chan struct{})
	go func(server *exec.Cmd, exited chan struct{}) {
		server.Wait()
		close(exited)
	}(e.server, e.exited)
	return wait.Until(e.limit, e.Ping)
}

// Panicked reports whether the engine has panicked since Start.
func (e *Engine) Panicked() bool {
	select {
	case <-e.exited:
	default:
		return false
	}
	log, err := os.Open(e.Path("log"))
	if err != nil {
		return false
	}
	defer log.Close()
	text, _ := io.ReadAll(io.NewSectionReader(log, e.began, math.MaxInt64-e.began))
	return bytes.Contains(text, []byte("\npanic: "))
}

// Ping checks that the engine's API answers.
func (e *Engine) Ping() error {
	select {
	case <-e.exited:
		return errors.New("the engine has ended")
	default:
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.Path("sock"))
		},
	}}
	answer, err := client.Get("http://engine/_ping")
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// Stop ends the engine with SIGTERM, as a service manager does.
func (e *Engine) Stop() error {
	if e.exited == nil {
		return nil // it never started
	}
	if err := e.server.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	most := wait.Most(e.limit)
	select {
	case <-e.exited:
		return nil
	case <-time.After(most):
		return errors.Join(fmt.Errorf("the engine did not stop within %v", most), e.Kill())
	}
}

// Kill ends the engine with SIGKILL, and then its containerd, but not a separate one. It also
// removes containerd's pid file: the next start would fail because of it even if the process is a
// zombie. Containers and the plugin keep running.
func (e *Engine) Kill() error {
	e.server.Process.Kill()
	<-e.exited
	pidFile := e.Path("exec/containerd/containerd.pid")
	if err := killByPidFile(e.limit, pidFile, e.dir); err != nil {
		return err
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close ends the engine as End does and removes its directory.
func (e *Engine) Close() error {
	if err := e.End(); err != nil {
		return err
	}
	return os.RemoveAll(e.dir)
}

// End removes the containers and the plugin, and stops the engine. It leaves the engine's directory
// to a caller that has a faster way to delete it: no process uses the directory and nothing is
// mounted in it.
func (e *Engine) End() error {
	if e.Ping() == nil {
		if ids, err := e.Try("ps", "--all", "--quiet"); err == nil && ids != "" {
			e.Try(append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
		}
		e.Try("plugin", "disable", "--force", PluginName)
	}
	return errors.Join(e.Stop(), e.stopContainerd(), killAndUnmount(e.limit, e.dir))
}

// Try runs the docker command against the engine as a user types it, and returns its output. The
// error contains the command's output.
func (e *Engine) Try(args ...string) (string, error) {
	cmd := e.Command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := strings.TrimRight(stdout.String(), "\n")
	if err != nil {
		return out, fmt.Errorf("docker %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

// Command returns a docker command with the engine's address and without the user's settings.
func (e *Engine) Command(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+e.Path("config"), "DOCKER_CONTEXT=")
	return cmd
}

// onDisk returns an error if no overlay can have its upper directory in dir.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%s is on an overlay: mount a real filesystem (ext4, xfs) at /var/tmp", dir)
	}
	return nil
}
