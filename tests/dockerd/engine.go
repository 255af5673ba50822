// Package dockerd starts Docker engines for tests and benchmarks, each with a data directory, a socket and a containerd of
// its own and without a network of its own, and installs the managed plugin in them.
//
// A caller may rely on this: nothing of the host's own engine is touched, all of an engine is below the one directory that
// it is given, and Close leaves nothing of it: no process, no mount, no file; Remove does the same for an engine whose
// owner was killed. The methods of an Engine are not for concurrent use, except Try and Command. It needs root, dockerd,
// containerd and docker: the machine's, or those that Choose finds.
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
)

// Patience is how long an engine is waited for, on a loaded machine too.
const Patience = time.Minute

// Engine is a Docker engine.
type Engine struct {
	// Plugin is the ID of the plugin that Install has installed.
	Plugin string

	dir     string
	network string // the file of the network namespace to run in; empty: this process's
	flags   []string
	server  *exec.Cmd
	exited  chan struct{}
	began   int64 // where the log of the server begins

	// containerd is the one apart, nil where the engine has one of its own.
	containerd      *exec.Cmd
	containerdEnded chan struct{}
}

// New starts an engine in dir, which it makes, with more flags of dockerd's. An error leaves nothing behind.
func New(dir string, flags ...string) (*Engine, error) {
	return (&Engine{dir: dir, flags: flags}).begin()
}

// NewIn is New in the network namespace of a file, with this process's mounts as any other.
func NewIn(network, dir string, flags ...string) (*Engine, error) {
	return (&Engine{dir: dir, network: network, flags: flags}).begin()
}

// begin makes the engine's directory, does what comes before its first start, and starts it. After an error nothing is
// left.
func (e *Engine) begin(before ...func() error) (*Engine, error) {
	if err := errors.Join(os.MkdirAll(e.Path("config"), 0o755), onDisk(e.dir)); err != nil {
		return nil, err
	}
	// Without a file of its own the engine reads the host's, and refuses what both that and a flag say.
	if err := os.WriteFile(e.Path("daemon.json"), []byte("{}"), 0o644); err != nil {
		return nil, err
	}
	for _, step := range append(before, e.Start) {
		if err := step(); err != nil {
			return nil, errors.Join(err, fmt.Errorf("the engine's log: %s", Tail(e.Path("log"), 30, Telling)), e.Close())
		}
	}
	return e, nil
}

// Path is a path below the engine's directory: "log" is its log, "data" its data.
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
	if e.network != "" {
		command = []string{"nsenter", "--net=" + e.network, "dockerd"}
	}
	command = append(command,
		"--config-file", e.Path("daemon.json"), "--host", "unix://"+e.Path("sock"),
		"--data-root", e.Path("data"), "--exec-root", e.Path("exec"), "--pidfile", e.Path("pid"),
		"--bridge=none", "--iptables=false")
	e.server = exec.Command(command[0], append(command[1:], e.flags...)...)
	e.server.Stdout, e.server.Stderr = log, log
	// A Ctrl-C in the terminal is for the tests, which stop the engine in order.
	e.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.server.Start(); err != nil {
		return err
	}
	e.exited = make(chan struct{})
	go func(server *exec.Cmd, exited chan struct{}) {
		server.Wait()
		close(exited)
	}(e.server, e.exited)
	return Poll(Patience, e.Ping)
}

// Panicked reports whether the engine has ended in a panic since Start.
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

// Ping asks the engine's API for a sign of life.
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

// Stop ends the engine in order, as a service manager does.
func (e *Engine) Stop() error {
	if e.exited == nil {
		return nil // it never started
	}
	if err := e.server.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-e.exited:
		return nil
	case <-time.After(Patience):
		return errors.Join(fmt.Errorf("the engine did not stop within %v", Patience), e.Kill())
	}
}

// Kill ends the engine with SIGKILL, and then its containerd, on which the next start would stumble, even on a pid file
// that names a zombie; a containerd apart is left. Containers and the plugin go on.
func (e *Engine) Kill() error {
	e.server.Process.Kill()
	<-e.exited
	pidFile := e.Path("exec/containerd/containerd.pid")
	if err := endByFile(pidFile, e.dir); err != nil {
		return err
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close ends the engine as End does and removes its folder.
func (e *Engine) Close() error {
	if err := e.End(); err != nil {
		return err
	}
	return os.RemoveAll(e.dir)
}

// End removes the containers and the plugin, and stops the engine. Its folder is left to a caller who has a faster way to
// delete it: no process uses it and nothing is mounted in it.
func (e *Engine) End() error {
	if e.Ping() == nil {
		if ids, err := e.Try("ps", "--all", "--quiet"); err == nil && ids != "" {
			e.Try(append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
		}
		e.Try("plugin", "disable", "--force", PluginName)
	}
	return errors.Join(e.Stop(), e.stopContainerd(), free(e.dir))
}

// Try runs the docker command against the engine as a user types it, and returns its output. The error carries what
// the command said.
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

// Command is the docker command with the engine's address and none of the user's settings.
func (e *Engine) Command(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+e.Path("config"), "DOCKER_CONTEXT=")
	return cmd
}

// onDisk refuses folders on which no overlay can have its upper directory.
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
