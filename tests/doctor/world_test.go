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
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

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
	if err := os.WriteFile(filepath.Join(w.data, ".helmdeck-repos"), nil, 0o644); err != nil { // which a data directory with a database has
		w.t.Fatal(err)
	}
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
	if w.plugin, err = daemon.Start(w.t, daemon.Config{Program: program, Dir: w.dir, Data: w.data, Env: append([]string{"ASK_TIMEOUT=3s"}, w.env...)}); err != nil {
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

// mount mounts the first volume, and sweeps until the janitor has measured the clone.
func (w *world) mount() {
	w.t.Helper()
	ctx := w.t.Context()
	if _, err := w.plugin.Mount(ctx, w.volumes[0].Name, "1"); err != nil {
		w.t.Fatal(err)
	}
	err := wait.Until(w.t, func() error {
		if _, err := w.plugin.Admin.Sweep(ctx); err != nil {
			return wait.Final(err)
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
	plugin, err := daemon.Start(w.t, daemon.Config{Program: program, Dir: w.dir, Data: w.data})
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
