package remotes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// The timeouts of an impatient plugin, which is for the tests of remotes that fall silent. Honest remotes, and git itself,
// may need longer on a loaded machine.
const (
	askTimeout   = 4 * time.Second
	stallTimeout = 2 * time.Second
)

// fetchUID is the uid of the plugin's git: it has a line in /etc/passwd, because ssh requires one. It is nobody.
const fetchUID = 65534

// plugin is the plugin's process with its own data directory.
type plugin struct {
	*daemon.Daemon
	t *testing.T
}

func scratch(t *testing.T) string { return testdir.New(t, "remotes") }

// start runs the plugin with settings (NAME=value) until stop or the end of the test.
func start(t *testing.T, settings ...string) *plugin { return startIn(t, scratch(t), settings...) }

// startIn is start with the data below dir.
func startIn(t *testing.T, dir string, settings ...string) *plugin {
	t.Helper()
	return launch(t, dir, nil, settings)
}

// startImpatient is start with short timeouts for remotes.
func startImpatient(t *testing.T, settings ...string) *plugin {
	t.Helper()
	return launch(t, scratch(t), []string{"-stall-timeout", stallTimeout.String()}, append([]string{"ASK_TIMEOUT=" + askTimeout.String()}, settings...))
}

func launch(t *testing.T, dir string, args, settings []string) *plugin {
	t.Helper()
	p := &plugin{t: t}
	p.run(daemon.Config{
		Program: program, Dir: dir,
		Args: append([]string{"-fetch-uid", fmt.Sprint(fetchUID)}, args...),
		// Tests change the remote right after a Create.
		Env: append([]string{"LOG_LEVEL=debug", "ALLOW_SCHEMES=ssh", "DEFAULT_OPTS=refresh=always"}, settings...),
	})
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", p.Log())
		}
	})
	return p
}

func (p *plugin) path(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// run starts the process and waits until it answers.
func (p *plugin) run(c daemon.Config) {
	p.t.Helper()
	d, err := daemon.Start(p.t, c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Daemon = d
}

// stop ends the process as the engine does. It does nothing if the process has ended.
func (p *plugin) stop() {
	p.t.Helper()
	select {
	case <-p.Ended():
		return
	default:
	}
	if err := p.Stop(); err != nil {
		p.t.Error(err)
	}
}

// restart stops the process and starts it again, with more settings. A test of a short limit prepares first, and gives the
// limit here, because an honest remote may need longer on a loaded machine.
func (p *plugin) restart(settings ...string) {
	p.t.Helper()
	p.stop()
	c := p.Config
	c.Env = append(slices.Clone(c.Env), settings...)
	p.run(c)
}

// await waits until check returns nil.
func (p *plugin) await(what string, check func() error) {
	p.t.Helper()
	if err := wait.Until(p.t, check); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func (p *plugin) create(name string, options ...string) error {
	m := map[string]string{"subject": name}
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		m[key] = value
	}
	return p.Create(p.t.Context(), name, m)
}

func (p *plugin) mount(name, id string) (dir string, err error) {
	return p.Mount(p.t.Context(), name, id)
}

func (p *plugin) unmount(name, id string) {
	p.t.Helper()
	if err := p.Unmount(p.t.Context(), name, id); err != nil {
		p.t.Fatalf("unmount %q: %v", name, err)
	}
}

func (p *plugin) status(name string) map[string]any {
	p.t.Helper()
	v, err := p.Get(p.t.Context(), name)
	if err != nil {
		p.t.Fatalf("get %q: %v", name, err)
	}
	return v.Status
}

// createAndCheck creates a volume and calls mountAndCheck.
func (p *plugin) createAndCheck(name, commit string, options ...string) error {
	p.t.Helper()
	if err := p.create(name, options...); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return p.mountAndCheck(name, commit)
}

// mountAndCheck mounts a volume, checks that it is a clean checkout of a commit, and unmounts it.
// An empty commit stands for any.
func (p *plugin) mountAndCheck(name, commit string) error {
	p.t.Helper()
	dir, err := p.mount(name, "w")
	if err != nil {
		return err
	}
	defer p.unmount(name, "w")
	if got := testgit.GitAny(p.t, dir, "rev-parse", "HEAD"); commit != "" && got != commit {
		return fmt.Errorf("HEAD is %s, want %s", got, commit)
	}
	if got := testgit.GitAny(p.t, dir, "status", "--porcelain"); got != "" {
		return fmt.Errorf("status: %q, want clean", got)
	}
	testgit.GitAny(p.t, dir, "log", "--oneline") // fails if a commit of the history is missing
	return nil
}

// credential is a credential with its name.
type credential struct {
	Name string
	api.PutCredential
}

// putCredential stores a credential over the admin socket.
func (p *plugin) putCredential(c credential) {
	p.t.Helper()
	if err := p.Admin.PutCredential(p.t.Context(), c.Name, c.PutCredential); err != nil {
		p.t.Fatalf("put credential %q: %v", c.Name, err)
	}
}

// checkError returns an error unless err contains all of the words.
func checkError(err error, words ...string) error {
	if err == nil {
		return fmt.Errorf("got no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("got %w\nwant %q in it", err, w)
		}
	}
	return nil
}
