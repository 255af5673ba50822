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

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/gitserver"
)

// secrets are texts that must be nowhere, by what they are.
type secrets map[string]string

// in returns which of them are in data.
func (s secrets) in(data []byte) (found []string) {
	for name, text := range s {
		if bytes.Contains(data, []byte(text)) {
			found = append(found, name)
		}
	}
	return found
}

// children are the plugin's process and all its descendants.
func (p *plugin) children() (pids []string) {
	parents := map[string]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(data), ") ")
		if fields := strings.Fields(after); len(fields) > 1 {
			parents[filepath.Base(filepath.Dir(path))] = fields[1]
		}
	}
	top := fmt.Sprint(p.Pid())
	for pid := range parents {
		for at := pid; at != ""; at = parents[at] {
			if at == top {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestSecretsAreNowhere looks for the secrets of stored credentials, in a fetch that is stopped in the middle and after.
func TestSecretsAreNowhere(t *testing.T) {
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
	p.put(credential.Credential{Name: "pw", Kind: credential.HTTPS, Scope: hostOf(s.url) + "/team", User: "me", Secret: credential.NewSecret(password)})
	p.put(credential.Credential{Name: "tok", Kind: credential.Bearer, Scope: hostOf(s.url) + "/other", Secret: credential.NewSecret(token)})
	p.put(key(ssh, ssh.ClientKey()))
	p.put(knownHosts(ssh, ssh.KnownHosts()))
	if len(hidden.in(readAll(t, p.path("data/credentials")))) < 3 {
		t.Fatal("the secrets are not even in their own files: the test proves nothing")
	}

	release := make(chan struct{})
	s.Protect(app, gitserver.Login{User: "me", Password: password})
	s.Script(app, gitserver.Fetch, gitserver.On(gitserver.Fetch, gitserver.StallAfter(10_000, release)))
	if err := p.create("v", "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	p.until("the fetch stalls", func() error {
		if s.Left(app, gitserver.Fetch) > 0 || len(p.children()) < 4 {
			return fmt.Errorf("processes: %q", p.children())
		}
		return nil
	})
	seen := 0
	for _, pid := range p.children() {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile("/proc/" + pid + "/" + file)
			if err != nil {
				continue
			}
			if strings.Contains(string(data), s.url) {
				seen++
			}
			if found := hidden.in(data); len(found) > 0 {
				t.Errorf("%s of %q has %q", file, data, found)
			}
		}
	}
	if seen < 2 {
		t.Errorf("the URL is in %d command lines and environments of children: they were not read", seen)
	}
	close(release)

	if err := p.mounts("v", s.head); err != nil {
		t.Error(err)
	}
	if err := p.works("ssh", "", "repo="+sshURL); err != nil {
		t.Error(err)
	}
	var told []byte
	s.Protect(app, gitserver.Login{User: "me", Password: "changed"})
	_, err := p.mount("v", "x")
	told = fmt.Appendln(told, err, p.create("o", "repo="+s.URL("other/one")), p.create("c", "repo="+s.URL("else"), "credential=pw"))
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
		told = append(told, data...)
	}
	list, err := p.Admin.Credentials(t.Context())
	told = fmt.Appendf(told, "%+v %#v %v", list, list, err)
	if found := hidden.in(told); len(found) > 0 {
		t.Errorf("errors, status and list have %q: %s", found, told)
	}
	for _, path := range []string{"log", "data/meta.db", "data/volumes", "data/clones", "data/locks"} {
		data := readAll(t, p.path(path))
		if found := hidden.in(data); len(found) > 0 || len(data) == 0 && path != "data/locks" {
			t.Errorf("%s, %d bytes, has %q", path, len(data), found)
		}
	}
	if config, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || !strings.Contains(string(config), s.url) {
		t.Errorf(".git/config: %v: %s", err, config)
	}
	p.unmount("v", "y")
}

// readAll is all regular files at path or below it, names and contents.
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
