// Package doctor tests that `docker repos doctor` finds faults. Each fault is planted in a world of its own:
// the plugin's program with its own data directory, remotes, and the command that asks it over the admin
// socket. The same world without the fault is the control: there the check is ok. The tests need root and
// the command (make cli), and fail without them.
package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
)

// command is the command of docker repos.
const command = "../../build/docker-repos"

// program is the plugin's program, built for this run.
var program string

func TestMain(m *testing.M) {
	daemon.Main("doctor", nil, func(_, built string) (int, error) {
		program = built
		if _, err := os.Stat(command); err != nil {
			return 1, fmt.Errorf("no command: run make cli first: %w", err)
		}
		return m.Run(), nil
	})
}

// world is the plugin with its remotes.
type world struct {
	t       *testing.T
	dir     string
	data    string
	env     []string
	volumes []meta.Volume // that the plugin finds in its records
	plugin  *daemon.Daemon
	args    []string // of the command before doctor
	host    string   // the engine's address
}

// volume gives the plugin a volume, as if it had been made when the remote still answered.
func (w *world) volume(repo string, more ...string) {
	options := map[string]string{"repo": repo}
	for i := 0; i < len(more); i += 2 {
		options[more[i]] = more[i+1]
	}
	w.volumes = append(w.volumes, meta.Volume{Name: fmt.Sprint("planted", len(w.volumes)), Options: options, CreatedAt: time.Now()})
}

// start starts the plugin.
func (w *world) start() {
	w.t.Helper()
	db, _, err := meta.Open(filepath.Join(w.data, "meta.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range w.volumes {
		if err := db.Update(func(tx *meta.Tx) error { return tx.PutVolume(v) }); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		w.t.Fatal(err)
	}
	if w.plugin, err = daemon.Start(daemon.Config{Program: program, Dir: w.dir, Data: w.data, Env: w.env, Args: []string{"-ask-timeout", "3s"}}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		select {
		case <-w.plugin.Ended(): // the fault
		default:
			if err := w.plugin.Stop(); err != nil {
				w.t.Error(err)
			}
		}
		if w.t.Failed() {
			w.t.Logf("the plugin's log:\n%s", w.plugin.Log())
		}
	})
	if w.args == nil {
		w.args = []string{"--socket", w.admin()}
	}
}

func (w *world) admin() string { return filepath.Join(w.dir, "run/admin.sock") }

// doctor runs the command. Its exit code must be 1 if a check failed, and otherwise 0.
func (w *world) doctor() []api.Check {
	w.t.Helper()
	cmd := exec.Command(command, append(w.args, "doctor", "--format", "json")...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "DOCKER_CONFIG=/nonexistent", "DOCKER_HOST=" + w.host}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || ended.ExitCode() != 1) {
		w.t.Fatalf("%v\n%s", err, &stderr)
	}
	var checks []api.Check
	failed := false
	for d := json.NewDecoder(&out); d.More(); {
		var c api.Check
		if err := d.Decode(&c); err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(c.Text+c.Remedy, secret) {
			w.t.Errorf("a check shows the secret: %+v", c)
		}
		failed = failed || c.Status == api.Failed
		checks = append(checks, c)
	}
	if failed != (err != nil) || (stderr.Len() > 0) != failed {
		w.t.Errorf("failed: %v, but the command ended with %v, %s", failed, err, &stderr)
	}
	return checks
}

// fault is what a test plants.
type fault struct {
	name   string
	check  string // the check that finds it
	status string
	words  []string // in what it says
	// world prepares the fault's world and its control, before the plugin starts.
	world func(w *world)
	disk  func(dir string) error
	// before plants the fault before the plugin's start, and after when it runs.
	before, after func(w *world)
}

const secret = "s3cret-of-the-test"

var faults = []fault{
	{
		name: "remote unreachable", check: "remote", status: api.Failed, words: []string{"connection refused", "nothing listens"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { s := served(w.t); w.volume(s.URL("sample")); s.Close() },
	},
	{
		name: "name without an address", check: "remote", status: api.Failed, words: []string{"no-such-host.invalid", "host unknown", "name servers"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume("https://no-such-host.invalid/r") },
	},
	{
		name: "remote that is silent", check: "remote", status: api.Failed, words: []string{"timeout", "did not answer in time"},
		world: func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) {
			s := served(w.t)
			s.Route("sample", func(http.Handler) http.Handler {
				return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			})
			w.volume(s.URL("sample"))
		},
	},
	{
		name: "certificate has expired", check: "remote", status: api.Failed, words: []string{"has expired", "renew it"},
		world:  func(w *world) { w.trust(w.t) },
		before: func(w *world) { w.trust(w.t, gitserver.Expired) },
	},
	{
		name: "certificate of another host", check: "remote", status: api.Failed, words: []string{"certificate", "the name that the certificate is for"},
		world:  func(w *world) { w.trust(w.t) },
		before: func(w *world) { w.trust(w.t, gitserver.WrongName) },
	},
	{
		name: "certificate of an unknown authority", check: "remote", status: api.Failed, words: []string{"unknown authority", "CA_BUNDLE"},
		world:  func(w *world) { w.trust(w.t) },
		before: func(w *world) { w.volume(servedTLS(w.t).URL("sample")) },
	},
	{
		name: "credential missing", check: "remote", status: api.Failed, words: []string{"authentication failed", "store a credential"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume(guarded(w.t).URL("sample")) },
	},
	{
		name: "credential refused", check: "remote", status: api.Failed, words: []string{`refused the stored credential "mine"`},
		world:  func(w *world) { s := guarded(w.t); w.volume(s.URL("sample")); w.put(s, secret) },
		before: func(w *world) { s := guarded(w.t); w.volume(s.URL("sample")); w.put(s, "wrong") },
	},
	{
		name: "credential named and removed", check: "remote", status: api.Failed, words: []string{`no credential "lost"`, "credentials put"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume(served(w.t).URL("sample"), "credential", "lost") },
	},
	{
		name: "repository with a scheme that is not allowed", check: "remote", status: api.Failed, words: []string{"ssh://127.0.0.1", "ALLOW_SCHEMES=ssh"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume("ssh://git@127.0.0.1/r") },
	},
	{
		name: "credential for a scheme that is not allowed", check: "credential", status: api.Failed, words: []string{"hosts", "ALLOW_SCHEMES=ssh"},
		after: func(w *world) {
			err := w.plugin.Admin.PutCredential(w.t.Context(), "hosts", api.PutCredential{Kind: api.KnownHosts, Scope: "ssh://h.example", Secret: knownHost})
			if err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "disk nearly full", check: "disk", status: api.Failed, words: []string{"MIN_FREE", "docker repos df"},
		world: func(w *world) { w.env = append(w.env, "MIN_FREE=20%") },
		disk:  func(dir string) error { return testdisk.Ext4(dir, 128<<20) },
		after: func(w *world) {
			space, err := disk.SpaceOf(w.data)
			if err == nil {
				err = os.WriteFile(filepath.Join(w.data, "lost+found/filler"), make([]byte, space.Free.Bytes-space.Total.Bytes*15/100), 0o600)
			}
			if err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "inodes nearly used up", check: "inodes", status: api.Failed, words: []string{"inodes are free", "docker repos df"},
		world: func(w *world) { w.env = append(w.env, "MIN_FREE=20%") },
		disk:  func(dir string) error { return testdisk.Ext4(dir, 128<<20, "-N", "1000") },
		after: func(w *world) {
			for i := range 850 {
				if err := os.WriteFile(filepath.Join(w.data, fmt.Sprint("lost+found/", i)), nil, 0o600); err != nil {
					w.t.Fatal(err)
				}
			}
		},
	},
	{
		name: "limit smaller than a clone", check: "budget", status: api.Failed, words: []string{"more than MAX_SIZE", "raise the limit"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.env = append(w.env, "MAX_SIZE=4KiB") },
	},
	{
		name: "settings that do not fit", check: "settings", status: api.Warning, words: []string{"SUBJECT_MAX_SIZE is 2.0 MiB", "below MAX_SIZE"},
		world:  func(w *world) { w.env = append(w.env, "SUBJECT_MAX_SIZE=2MiB", "MAX_SIZE=3MiB") },
		before: func(w *world) { w.env = append(w.env, "MAX_SIZE=1MiB") },
	},
	{
		name: "clock put back", check: "clock", status: api.Failed, words: []string{"a record of", "set the clock"},
		world: func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) {
			w.volumes[0].CreatedAt = time.Now().Add(time.Hour)
		},
	},
	{
		name: "clocks that differ", check: "clock", status: api.Failed, words: []string{"the clock of the plugin is", "ahead of this machine's"},
		after: func(w *world) { w.args = []string{"--socket", w.ahead(time.Hour)} },
	},
	{
		name: "plugin disabled", check: "plugin", status: api.Failed, words: []string{"is disabled", "docker plugin enable --timeout 120"},
		after: func(w *world) { w.host, w.args = engineWith(w.t, false), []string{} },
	},
	{
		name: "plugin stopped", check: "socket", status: api.Failed, words: []string{"nobody listens"},
		after: func(w *world) { w.plugin.Kill() },
	},
	{
		name: "engine away", check: "engine", status: api.Failed, words: []string{"start the engine"},
		after: func(w *world) { w.host, w.args = "unix:///nonexistent.sock", []string{} },
	},
}

func TestDoctor(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range examine(t, f, false) {
				if c.Name == f.check && c.Status != api.OK {
					t.Errorf("without the fault: got %+v", c)
				}
			}
			checks := examine(t, f, true)
			for _, c := range checks {
				if found := c.Target + " " + c.Text + " " + c.Remedy; c.Name == f.check && c.Status == f.status && c.Remedy != "" && containsAll(found, f.words) {
					t.Logf("%s: %s; to do: %s", c.Name, c.Text, c.Remedy)
					return
				}
			}
			t.Errorf("not found: %s with %q among %+v", f.check, f.words, checks)
		})
	}
}

// examine makes a world, with the fault or without, and examines it.
func examine(t *testing.T, f fault, planted bool) []api.Check {
	t.Helper()
	dir := testdir.New(t, "doctor")
	w := &world{t: t, dir: dir, data: filepath.Join(dir, "data"), host: "unix:///nonexistent.sock"}
	if f.disk != nil {
		w.data = testdisk.Small(t, f.disk)
	} else if err := os.MkdirAll(w.data, 0o755); err != nil {
		t.Fatal(err)
	}
	if f.world != nil {
		f.world(w)
	}
	if planted && f.before != nil {
		f.before(w)
	}
	w.start()
	if f.check == "budget" {
		w.mount()
	}
	if planted && f.after != nil {
		f.after(w)
	}
	return w.doctor()
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// mount mounts the first volume, and sweeps until the janitor has measured the clone.
func (w *world) mount() {
	w.t.Helper()
	ctx := w.t.Context()
	if _, err := w.plugin.Mount(ctx, w.volumes[0].Name, "1"); err != nil {
		w.t.Fatal(err)
	}
	err := daemon.Poll(func() error {
		if _, err := w.plugin.Admin.Sweep(ctx); err != nil {
			return daemon.Final(err)
		}
		clones, err := w.plugin.Admin.Clones(ctx, api.Filter{})
		if err == nil && (len(clones) != 1 || clones[0].Size.Bytes < 64<<10) {
			err = fmt.Errorf("the clones are %+v", clones)
		}
		return err
	})
	if err == nil {
		_, err = w.plugin.Admin.Sweep(ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// put stores a credential for a server. The plugin reads it at its start.
func (w *world) put(s *gitserver.Server, password string) {
	w.t.Helper()
	u, err := url.Parse(s.URL(""))
	if err != nil {
		w.t.Fatal(err)
	}
	plugin, err := daemon.Start(daemon.Config{Program: program, Dir: w.dir, Data: w.data})
	if err != nil {
		w.t.Fatal(err)
	}
	err = plugin.Admin.PutCredential(w.t.Context(), "mine", api.PutCredential{Kind: api.HTTPS, Scope: u.Scheme + "://" + u.Host, User: "u", Secret: password})
	if err := errors.Join(err, plugin.Stop()); err != nil {
		w.t.Fatal(err)
	}
}

// trust gives the plugin a volume of a remote over TLS, whose authority it trusts.
func (w *world) trust(t *testing.T, flaws ...gitserver.Flaw) {
	t.Helper()
	s := servedTLS(t, flaws...)
	w.volume(s.URL("sample"))
	w.env = append(w.env, "CA_BUNDLE="+string(s.CA()))
}

// ahead returns a socket of a plugin whose clock is ahead of the real one's.
func (w *world) ahead(by time.Duration) string {
	w.t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "admin" },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", w.admin())
		}},
	}
	proxy.ModifyResponse = func(r *http.Response) error {
		var h api.Health
		if r.Request.URL.Path != "/v1/health" {
			return nil
		}
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			return err
		}
		h.Time = h.Time.Add(by)
		changed, err := json.Marshal(h)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
		r.Header.Set("Content-Length", fmt.Sprint(len(changed)))
		return err
	}
	return listen(w.t, proxy)
}

// engineWith returns the address of something that answers as an engine with the plugin.
func engineWith(t *testing.T, enabled bool) string {
	t.Helper()
	return "unix://" + listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"Id": strings.Repeat("0", 64), "Name": "helmdeck/repos:latest", "Enabled": enabled}
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.51")
		case strings.HasSuffix(r.URL.Path, "/version"):
			answer = map[string]any{"Version": "28.5.2", "ApiVersion": "1.51", "Os": "linux", "Arch": "amd64"}
		case strings.HasSuffix(r.URL.Path, "/info"):
			answer = map[string]any{"SystemTime": time.Now().Format(time.RFC3339Nano)}
		}
		json.NewEncoder(w).Encode(answer)
	}))
}

// listen serves on a socket until the end of the test, and returns its path.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	socket := filepath.Join(testdir.New(t, "doctor"), "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	return socket
}

// served starts a server with one repository, "sample".
func served(t *testing.T) *gitserver.Server {
	t.Helper()
	return testgit.Remote(t, "sample", spec)
}

// guarded starts a server that wants a credential.
func guarded(t *testing.T) *gitserver.Server {
	t.Helper()
	s := served(t)
	s.Protect("sample", gitserver.Login{User: "u", Password: secret})
	return s
}

// servedTLS is served over TLS.
func servedTLS(t *testing.T, flaws ...gitserver.Flaw) *gitserver.Server {
	t.Helper()
	s, err := gitserver.StartTLS(testdir.New(t, "remote"), flaws...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	testgit.Generate(t, s, "sample", spec)
	return s
}

var spec = gitserver.Spec{Seed: 1, Files: 50, Commits: 2, Changes: 3}

// knownHost is a line of known_hosts.
const knownHost = "h.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"
