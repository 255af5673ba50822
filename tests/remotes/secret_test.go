package remotes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/gitserver"
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
	const password, token = "pw-8d1f6c0e5b", "tok-77aa01c2f9"
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
	seen := 0
	for _, pid := range p.processes() {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				continue
			}
			if strings.Contains(string(data), s.url) {
				seen++
			}
			if names := hidden.in(data); len(names) > 0 {
				t.Errorf("%s of process %d, %q, has the secrets %q", file, pid, data, names)
			}
		}
	}
	if seen < 2 {
		t.Errorf("the URL is in %d command lines and environments, want 2 or more: the test did not read them", seen)
	}
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
	if names := hidden.in(output); len(names) > 0 {
		t.Errorf("errors, status and list have the secrets %q: %s", names, output)
	}
	for _, path := range []string{"log", "data/meta.db", "data/volumes", "data/clones", "data/locks", "data/audit"} {
		data := readAll(t, p.path(path))
		if names := hidden.in(data); len(names) > 0 || len(data) == 0 && path != "data/locks" {
			t.Errorf("%s, %d bytes, has the secrets %q", path, len(data), names)
		}
	}
	if config, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || !strings.Contains(string(config), s.url) {
		t.Errorf(".git/config: %v: %s", err, config)
	}
	p.unmount("v", "y")
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
