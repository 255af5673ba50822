package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/go-plugins-helpers/volume"
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	m.Run()
}

// environment returns the variables of a plugin in a test: these settings, as name=value, and two that
// tests need. Nothing is read from the environment of the test's process.
func environment(settings ...string) (getenv func(name string) string) {
	variables := map[string]string{
		"MIN_FREE":     "0",              // tests must not depend on how full this machine's disk is
		"DEFAULT_OPTS": "refresh=always", // tests change the remote right after a Create
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		variables[name] = value
	}
	return func(name string) string { return variables[name] }
}

// process is the whole plugin, run in the test's process on a data directory of its own.
type process struct {
	*daemon.Caller
	t    *testing.T
	at   places
	stop func()
	log  *watcher
}

// watcher records log lines. A test can read them and wait for new ones.
type watcher struct {
	mu    sync.Mutex
	lines []string
	all   []logged
	next  chan struct{} // closed when the next line comes
}

// logged is a line of the log.
type logged struct {
	message string
	fields  logrus.Fields
}

func (w *watcher) Levels() []logrus.Level { return logrus.AllLevels }

func (w *watcher) Fire(e *logrus.Entry) error {
	if err := (origin.Hook{}).Fire(e); err != nil { // the plugin's own comes later
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprint(e.Level, ": ", e.Message, " ", e.Data))
	w.all = append(w.all, logged{e.Message, maps.Clone(e.Data)})
	close(w.next)
	w.next = make(chan struct{})
	return nil
}

// find returns the first line that contains words, and a channel that is closed when the next line
// comes.
func (w *watcher) find(words string) (line string, more <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines {
		if strings.Contains(l, words) {
			return l, w.next
		}
	}
	return "", w.next
}

// since returns the lines after the first n.
func (w *watcher) since(n int) []logged {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all[n:])
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

// scratch returns a directory that the fetching uid can read. Its filesystem can hold an overlay's
// upper directory, unlike /tmp on some machines.
func scratch(t *testing.T) string {
	t.Helper()
	return testdir.New(t, "plugin")
}

// start runs the plugin on data until stop or the end of the test, with settings as name=value.
func start(t *testing.T, data string, settings ...string) *process {
	t.Helper()
	return startWith(t, data, func(*places) {}, settings...)
}

// startWith is start with changed places.
func startWith(t *testing.T, data string, change func(*places), settings ...string) *process {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, log: &watcher{next: make(chan struct{})}}
	p.at = places{data: filepath.Join(data, "data"), socket: filepath.Join(data, "repos.sock"), git: git, fetchUID: fetchUID}
	change(&p.at)
	p.Caller = daemon.Dial(p.at.socket)
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.AddHook(p.log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, p.at, environment(settings...), log) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("plugin: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", p.log)
		}
	})
	t.Cleanup(p.stop)
	for {
		line, more := p.log.find("listening")
		if line != "" {
			return p
		}
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("plugin: %v", err)
		case <-more:
		}
	}
}

// waitFor waits for a log line that contains words. Only the timeout of the test limits the wait.
func (p *process) waitFor(words string) {
	p.t.Helper()
	for {
		line, more := p.log.find(words)
		if line != "" {
			return
		}
		<-more
	}
}

// tryCreate creates a volume, and returns the error.
func (p *process) tryCreate(name string, options map[string]string) error {
	return p.Create(p.t.Context(), name, options)
}

// tryMount mounts a volume, and returns the error.
func (p *process) tryMount(name, id string) error {
	_, err := p.Mount(p.t.Context(), name, id)
	return err
}

func (p *process) create(name string, options map[string]string) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), name, options); err != nil {
		p.t.Fatalf("create %q: %v", name, err)
	}
}

func (p *process) mount(name, id string) string {
	p.t.Helper()
	dir, err := p.Mount(p.t.Context(), name, id)
	if err != nil {
		p.t.Fatalf("mount %q: %v", name, err)
	}
	return dir
}

func (p *process) unmount(name, id string) {
	p.t.Helper()
	if err := p.Unmount(p.t.Context(), name, id); err != nil {
		p.t.Fatalf("unmount %q: %v", name, err)
	}
}

func (p *process) get(name string) *volume.Volume {
	p.t.Helper()
	v, err := p.Get(p.t.Context(), name)
	if err != nil {
		p.t.Fatalf("get %q: %v", name, err)
	}
	return v
}

// remote starts a git server with one repository, "sample".
func remote(t *testing.T) *gitserver.Server {
	t.Helper()
	return testgit.Remote(t, "sample", gitserver.Spec{
		Seed: 1, Files: 300, Commits: 5, Changes: 10, Branches: []string{"feature/x", "release-1.0"},
	})
}

// tlsRemote starts a server over TLS with one repository, "sample".
func tlsRemote(t *testing.T) *gitserver.Server {
	t.Helper()
	s, err := gitserver.StartTLS(testdir.New(t, "remote"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	testgit.Generate(t, s, "sample", gitserver.Spec{Seed: 1, Files: 3, Commits: 1})
	return s
}

// admin returns a client of the admin socket.
func (p *process) admin() *api.Client {
	return api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket))
}
