package remotes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/tokenserver"
	"github.com/helmdeck/repos/tests/proc"
)

// secrets maps names to texts that must not leak.
type secrets map[string]string

// in returns the names of the secrets that data contains.
func (s secrets) in(data []byte) (names []string) {
	for name, text := range s {
		if bytes.Contains(data, []byte(text)) {
			names = append(names, name)
		}
	}
	return names
}

// processes returns the pids of the plugin's process and all its descendants.
func (p *plugin) processes() []int { return append(proc.Descendants(p.Pid()), p.Pid()) }

// TestSecretsDoNotLeak looks for the secrets of stored credentials: in the processes of a fetch
// that is stopped in the middle, and later in errors, the status, the log and the data.
func TestSecretsDoNotLeak(t *testing.T) {
	t.Parallel()
	s, p := serve(t), start(t)
	ssh, sshURL, _ := serveSSH(t)
	const password, token = "pw-8d1f6c0e5b", "glpat-77aa01c2f977aa01c2f9" // a user that looks like a token is refused
	keyLines := strings.Split(string(ssh.ClientKey()), "\n")
	hidden := secrets{
		"password": password, "token": token,
		"password as it is sent": base64.StdEncoding.EncodeToString([]byte("me:" + password)),
		"ssh key":                keyLines[3],
	}
	p.putCredential(credential{"pw", api.PutCredential{Kind: api.HTTPS, Scope: hostOf(s.url) + "/team", User: "me", Secret: password}})
	p.putCredential(credential{"tok", api.PutCredential{Kind: api.Bearer, Scope: hostOf(s.url) + "/other", Secret: token}})
	p.putCredential(key(ssh, ssh.ClientKey()))
	p.putCredential(knownHosts(ssh, ssh.KnownHosts()))
	if len(hidden.in(readAll(t, p.path("data/credentials")))) < 3 {
		t.Fatal("the secrets are not found in their own files: the test proves nothing")
	}

	release := make(chan struct{})
	s.Protect(app, gitserver.Login{User: "me", Password: password})
	s.Wrap(gitserver.ProtocolZero()) // so that git fetches
	s.Script(app, gitserver.Fetch, gitserver.On(gitserver.Fetch, gitserver.StallAfter(10_000, release)))
	if err := p.create("v", "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	p.await("the fetch stalls", func() error {
		if s.Left(app, gitserver.Fetch) > 0 || len(p.processes()) < 4 {
			return fmt.Errorf("processes: %v", p.processes())
		}
		return nil
	})
	p.checkProcesses(s.url, hidden)
	close(release)
	s.Wrap(nil)

	if err := p.mountAndCheck("v", s.head); err != nil {
		t.Error(err)
	}
	if err := p.createAndCheck("ssh", "", "repo="+sshURL); err != nil {
		t.Error(err)
	}
	var output []byte
	s.Protect(app, gitserver.Login{User: "me", Password: "changed"})
	_, err := p.mount("v", "x")
	output = fmt.Appendln(output, err, p.create("o", "repo="+s.URL("other/one")), p.create("c", "repo="+s.URL("else"), "credential=pw"))
	for i, repo := range []string{"https://me:" + password + "@h/x", "https://" + token + "@h/x", "https://h/x?token=" + token, "ssh://me:" + password + "@h/x"} {
		output = fmt.Appendln(output, p.create(fmt.Sprint("u", i), "repo="+repo))
	}
	s.Protect(app, gitserver.Login{User: "me", Password: password})
	dir, err := p.mount("v", "y")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"v", "ssh"} {
		data, err := json.Marshal(p.status(v))
		if err != nil {
			t.Fatal(err)
		}
		output = append(output, data...)
	}
	list, err := p.Admin.Credentials(t.Context(), api.Filter{})
	output = fmt.Appendf(output, "%+v %#v %v", list, list, err)
	lines := 0
	if err := p.Admin.Logs(t.Context(), api.LogFilter{}, func(l api.LogLine) error {
		lines++
		output = fmt.Appendln(output, l)
		return nil
	}); err != nil || lines < 5 {
		t.Errorf("the log has %d lines, %v", lines, err)
	}
	if names := hidden.in(output); len(names) > 0 {
		t.Errorf("errors, status, log and list have the secrets %q: %s", names, output)
	}
	p.checkFiles(hidden)
	if config, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || !strings.Contains(string(config), s.url) {
		t.Errorf(".git/config: %v: %s", err, config)
	}
	p.unmount("v", "y")
}

// checkProcesses looks for secrets in the arguments and environments of the plugin and its
// descendants, of which at least two must have a URL.
func (p *plugin) checkProcesses(url string, hidden secrets) {
	p.t.Helper()
	seen := 0
	for _, pid := range p.processes() {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				continue
			}
			if strings.Contains(string(data), url) {
				seen++
			}
			if names := hidden.in(data); len(names) > 0 {
				p.t.Errorf("%s of process %d, %q, has the secrets %q", file, pid, data, names)
			}
		}
	}
	if seen < 2 {
		p.t.Errorf("the URL is in %d command lines and environments, want 2 or more: the test did not read them", seen)
	}
}

// checkFiles looks for secrets in the log, and in all data but the credentials.
func (p *plugin) checkFiles(hidden secrets) {
	p.t.Helper()
	for _, path := range []string{"log", "data/meta.db", "data/volumes", "data/clones", "data/audit"} {
		data := readAll(p.t, p.path(path))
		if names := hidden.in(data); len(names) > 0 || len(data) == 0 {
			p.t.Errorf("%s, %d bytes, has the secrets %q", path, len(data), names)
		}
	}
}

// TestRenewedSecretsDoNotLeak is TestSecretsDoNotLeak for the secrets that providers give, and
// for those that they are asked with.
func TestRenewedSecretsDoNotLeak(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{api.GitHubApp, api.HTTPProvider} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, p := serve(t), start(t)
			var c credential
			var issued *tokenserver.Issued
			hidden := secrets{}
			if kind == api.GitHubApp {
				var g *tokenserver.GitHub
				g, c = githubApp(t, s)
				g.Install(app, "read")
				issued = &g.Issued
				hidden["key of the app"] = strings.Split(g.Key(), "\n")[3]
			} else {
				var v *tokenserver.Service
				v, c = service(t, s, time.Hour)
				issued = &v.Issued
				hidden["secret for the service"] = serviceSecret
			}
			p.putCredential(c)
			if len(hidden.in(readAll(t, p.path("data/credentials")))) != 1 {
				t.Fatal("the secret is not found in its own file: the test proves nothing")
			}
			release := make(chan struct{})
			s.Wrap(gitserver.ProtocolZero()) // so that git fetches
			s.Script(app, gitserver.Fetch, gitserver.On(gitserver.Fetch, gitserver.StallAfter(10_000, release)))
			if err := p.create("v", "repo="+s.url); err != nil {
				t.Fatal(err)
			}
			p.await("the fetch stalls", func() error {
				if s.Left(app, gitserver.Fetch) > 0 || len(p.processes()) < 4 {
					return fmt.Errorf("processes: %v", p.processes())
				}
				return nil
			})
			minted := func() {
				for i, text := range issued.Secrets() {
					hidden[fmt.Sprint("secret ", i)] = text
					hidden[fmt.Sprint("secret ", i, " as it is sent")] = base64.StdEncoding.EncodeToString([]byte("x-access-token:" + text))
				}
			}
			minted()
			p.checkProcesses(s.url, hidden)
			close(release)
			if err := p.mountAndCheck("v", s.head); err != nil {
				t.Error(err)
			}
			s.Wrap(nil)
			issued.Revoke()
			err := p.mountAndCheck("v", s.commit(t, "main"))
			if err != nil || len(issued.Secrets()) < 2 {
				t.Errorf("after a refusal: %v, secrets: %d", err, len(issued.Secrets()))
			}
			// The provider repeats what it was sent.
			issued.Revoke()
			issued.Fail(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got, _ := io.ReadAll(r.Body)
				http.Error(w, r.Header.Get("Authorization")+string(got), http.StatusForbidden)
			}))
			p.putCredential(c) // or the provider would not be asked again within a minute
			output := fmt.Appendln(nil, p.mountAndCheck("v", ""), p.create("w", "repo="+s.url))
			data, err := json.Marshal(p.status("v"))
			list, listErr := p.Admin.Credentials(t.Context(), api.Filter{})
			output = fmt.Appendf(output, "%s %v %+v %#v %v", data, err, list, list, listErr)
			if !strings.Contains(string(output), "403 Forbidden") {
				t.Errorf("no error of the provider is in the output: %s", output)
			}
			minted()
			if names := hidden.in(output); len(names) > 0 {
				t.Errorf("errors, status and list have the secrets %q: %s", names, output)
			}
			p.checkFiles(hidden)
			for _, name := range hidden.in(readAll(t, p.path("data/credentials"))) {
				if strings.HasPrefix(name, "secret ") && name != "secret for the service" {
					t.Errorf("the directory of credentials has %s", name)
				}
			}
			p.stop()
			p.checkFiles(hidden)
		})
	}
}

// readAll returns the names and contents of all regular files at path or below it.
func readAll(t *testing.T, path string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		all = append(all, path...)
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
