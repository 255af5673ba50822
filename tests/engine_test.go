package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scratchPrefix begins the names of all folders of these tests; the owner's pid follows.
const scratchPrefix = "/var/tmp/hd-e2e-"

// scratch holds everything of this run. Not below the checkout, since the path of a socket may have 107 bytes only.
var scratch = scratchPrefix + strconv.Itoa(os.Getpid())

var engines atomic.Int32

// engine is a Docker engine of the tests with the plugin in it.
type engine struct {
	dir    string
	flags  []string
	server *exec.Cmd
	exited chan struct{}
	plugin string // id of the plugin
}

// lazyEngine is the engine that scenarios share, started by the first one that needs it.
type lazyEngine struct {
	once   sync.Once
	engine *engine
	err    error
}

var sharedEngine lazyEngine

func shared(t *testing.T) *engine {
	t.Helper()
	sharedEngine.once.Do(func() { sharedEngine.engine, sharedEngine.err = newEngine(nil) })
	if sharedEngine.err != nil {
		t.Fatal(sharedEngine.err)
	}
	return sharedEngine.engine
}

func (l *lazyEngine) close() error {
	if l.engine == nil {
		return nil
	}
	return l.engine.close()
}

// own starts an engine for one test. The settings (NAME=value) are the plugin's.
func own(t *testing.T, settings []string, flags ...string) *engine {
	t.Helper()
	e, err := newEngine(settings, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the engine's log:\n%s", tail(e.path("log"), 60, telling))
		}
		if err := e.close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return e
}

// newEngine starts an engine, and installs the test's image and the plugin.
func newEngine(settings []string, flags ...string) (*engine, error) {
	e := &engine{dir: filepath.Join(scratch, strconv.Itoa(int(engines.Add(1)))), flags: flags}
	if err := errors.Join(os.MkdirAll(e.path("config"), 0o755), onDisk(e.dir)); err != nil {
		return nil, err
	}
	// Without a file of its own the engine reads the host's, and refuses what both that and a flag say.
	if err := os.WriteFile(e.path("daemon.json"), []byte("{}"), 0o644); err != nil {
		return nil, err
	}
	for _, step := range []func() error{e.start, e.importImage, func() error { return e.install(settings) }} {
		if err := step(); err != nil {
			return nil, errors.Join(err, fmt.Errorf("the engine's log: %s", tail(e.path("log"), 30, telling)), e.close())
		}
	}
	return e, nil
}

// path is a path below the engine's folder.
func (e *engine) path(elem ...string) string {
	return filepath.Join(append([]string{e.dir}, elem...)...)
}

// start starts the engine on its data and waits until its API answers.
func (e *engine) start() error {
	log, err := os.OpenFile(e.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	e.server = exec.Command("dockerd", append([]string{
		"--config-file", e.path("daemon.json"), "--host", "unix://" + e.path("sock"),
		"--data-root", e.path("data"), "--exec-root", e.path("exec"), "--pidfile", e.path("pid"),
		"--bridge=none", "--iptables=false",
	}, e.flags...)...)
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
	return poll(patience, e.ping)
}

// ping asks the engine's API for a sign of life.
func (e *engine) ping() error {
	select {
	case <-e.exited:
		return errors.New("the engine has ended")
	default:
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.path("sock"))
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

// stop ends the engine in order, as a service manager does.
func (e *engine) stop() error {
	if err := e.server.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-e.exited:
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("the engine did not stop within %v", patience), e.kill())
	}
}

// kill ends the engine with SIGKILL, and then its containerd, on which the next start would stumble, even on a pid file
// that names a zombie. Containers and the plugin go on.
func (e *engine) kill() error {
	e.server.Process.Kill()
	<-e.exited
	pidFile := e.path("exec/containerd/containerd.pid")
	if err := endByFile(pidFile, e.dir); err != nil {
		return err
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// close removes the containers and the plugin, stops the engine, and removes its folder.
func (e *engine) close() error {
	if e.ping() == nil {
		if ids, err := e.try("ps", "--all", "--quiet"); err == nil && ids != "" {
			e.try(append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
		}
		e.try("plugin", "disable", "--force", pluginName)
	}
	return errors.Join(e.stop(), remove(e.dir))
}

// docker runs the docker command against the engine as a user types it, and returns its output.
func (e *engine) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused runs a docker command that must fail, and returns what it says.
func (e *engine) refused(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.try(args...)
	if err == nil {
		t.Fatalf("docker %q succeeded: %s", args, out)
	}
	return err.Error()
}

// try is docker without a test.
func (e *engine) try(args ...string) (string, error) {
	cmd := e.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := strings.TrimRight(stdout.String(), "\n")
	if err != nil {
		return out, fmt.Errorf("docker %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

// command is the docker command with the engine's address and none of the user's settings.
func (e *engine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.path("sock"), "DOCKER_CONFIG="+e.path("config"), "DOCKER_CONTEXT=")
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

// telling picks the lines of an engine's log that tell something: the plugin's, and complaints.
func telling(line string) bool {
	return strings.Contains(line, " plugin=") && strings.Contains(line, " msg=") || !strings.Contains(line, "level=info")
}

// tail is the last of the lines of a file that pick wants, for messages.
func tail(path string, lines int, pick func(line string) bool) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	var all []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
		if pick(line) {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
