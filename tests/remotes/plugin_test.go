package remotes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/go-plugins-helpers/volume"

	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/overlay"
)

// The plugin of a test is less patient than a user's. Its git is a uid with a line in /etc/passwd, which ssh asks for.
const (
	askTimeout   = 4 * time.Second
	stallTimeout = 2 * time.Second
	fetchUID     = 65534 // nobody
)

// plugin is the plugin's process on a data directory of its own.
type plugin struct {
	t        *testing.T
	dir      string
	settings []string
	cmd      *exec.Cmd
	ended    chan struct{}
	client   *http.Client
	admin    *admin.Client
}

// scratch returns a directory that can hold an overlay's upper, which /tmp may not, readable for the fetching uid. At the
// end nothing is mounted below it.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "helmdeck-remotes-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(detachAll(dir), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// detachAll unmounts what is below dir.
func detachAll(dir string) error {
	points, err := overlay.Mounts(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		release, err := overlay.Detach(p.Path)
		if err == nil {
			err = release()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// start runs the plugin with settings, NAME=value, until the test or stop ends it.
func start(t *testing.T, settings ...string) *plugin { return startIn(t, scratch(t), settings...) }

// startIn is start with the data below dir.
func startIn(t *testing.T, dir string, settings ...string) *plugin {
	t.Helper()
	p := &plugin{t: t, dir: dir, settings: settings}
	p.admin = admin.Dial(p.path("run/admin.sock"))
	p.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.path("run/repos.sock"))
	}}}
	p.run()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", p.log())
		}
	})
	return p
}

func (p *plugin) path(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

func (p *plugin) log() string {
	data, err := os.ReadFile(p.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// run starts the process and waits until it answers.
func (p *plugin) run() {
	p.t.Helper()
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(program, "-data", p.path("data"), "-socket", p.path("run/repos.sock"),
		"-fetch-uid", fmt.Sprint(fetchUID), "-ask-timeout", askTimeout.String(), "-stall-timeout", stallTimeout.String())
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LOG_LEVEL=debug", "ALLOW_SCHEMES=ssh"}, p.settings...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(p.cmd, p.ended)
	p.until("the plugin answers", func() error {
		select {
		case <-p.ended:
			p.t.Fatalf("the plugin has ended:\n%s", p.log())
		default:
		}
		return p.call("Plugin.Activate", nil, nil)
	})
}

// stop ends the process in order.
func (p *plugin) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}

func (p *plugin) restart() {
	p.t.Helper()
	p.stop()
	p.run()
}

// patience is how long the tests wait for what must happen, on a loaded machine too.
const patience = time.Minute

// until waits until check has nothing to complain about.
func (p *plugin) until(what string, check func() error) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: still after %v: %v", what, patience, err)
		}
	}
}

// call does what the engine does. The error is the answer's.
func (p *plugin) call(method string, request, answer any) error {
	body := new(bytes.Buffer)
	if request != nil {
		if err := json.NewEncoder(body).Encode(request); err != nil {
			return err
		}
	}
	resp, err := p.client.Post("http://plugin/"+method, "", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var e volume.ErrorResponse
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		return errors.New(e.Err)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}

func (p *plugin) create(name string, options ...string) error {
	m := map[string]string{"subject": name}
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		m[key] = value
	}
	return p.call("VolumeDriver.Create", volume.CreateRequest{Name: name, Options: m}, nil)
}

func (p *plugin) mount(name, id string) (dir string, err error) {
	var a volume.MountResponse
	err = p.call("VolumeDriver.Mount", volume.MountRequest{Name: name, ID: id}, &a)
	return a.Mountpoint, err
}

func (p *plugin) unmount(name, id string) {
	p.t.Helper()
	if err := p.call("VolumeDriver.Unmount", volume.UnmountRequest{Name: name, ID: id}, nil); err != nil {
		p.t.Fatalf("unmount %q: %v", name, err)
	}
}

func (p *plugin) status(name string) map[string]any {
	p.t.Helper()
	var a volume.GetResponse
	if err := p.call("VolumeDriver.Get", volume.GetRequest{Name: name}, &a); err != nil {
		p.t.Fatalf("get %q: %v", name, err)
	}
	return a.Volume.Status
}

// works creates a volume, mounts it, checks that it is a clean checkout of the commit, and takes it back.
func (p *plugin) works(name, commit string, options ...string) error {
	p.t.Helper()
	if err := p.create(name, options...); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return p.mounts(name, commit)
}

// mounts is works for a volume that is there.
func (p *plugin) mounts(name, commit string) error {
	p.t.Helper()
	dir, err := p.mount(name, "w")
	if err != nil {
		return err
	}
	defer p.unmount(name, "w")
	if got := gitIn(p.t, dir, "rev-parse", "HEAD"); commit != "" && got != commit {
		return fmt.Errorf("HEAD is %s, want %s", got, commit)
	}
	if got := gitIn(p.t, dir, "status", "--porcelain"); got != "" {
		return fmt.Errorf("status: %q, want clean", got)
	}
	gitIn(p.t, dir, "log", "--oneline") // has all objects of the history
	return nil
}

// put stores a credential over the admin socket.
func (p *plugin) put(c credential.Credential) {
	p.t.Helper()
	if err := p.admin.PutCredential(p.t.Context(), c); err != nil {
		p.t.Fatalf("put credential %q: %v", c.Name, err)
	}
}

// gitIn runs git as a container would, and returns its output.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// about reads a workspace's .git/helmdeck.json.
func about(t *testing.T, dir string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git/helmdeck.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// has returns an error unless err says all of the words.
func has(err error, words ...string) error {
	if err == nil {
		return fmt.Errorf("there was no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("got %w\nwant it to say %q", err, w)
		}
	}
	return nil
}
