package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// private starts a git server with the repository "sample", which asks for a token.
func private(t *testing.T, p *process, token string) *gitserver.Server {
	t.Helper()
	s := remote(t)
	s.Protect("sample", gitserver.Login{User: "me", Password: token})
	if err := p.admin().PutCredential(t.Context(), "sample", api.PutCredential{Kind: api.HTTPS, Scope: s.URL("sample"), User: "me", Secret: token}); err != nil {
		t.Fatal(err)
	}
	return s
}

// inContainer runs a script in a mount, as a container of a user does: elsewhere, in a mount namespace
// of its own. It returns the output.
func inContainer(dir, uid, script string) (string, error) {
	const enter = `mount --rbind "$1" /mnt; cd /mnt; exec setpriv --reuid "$2" --clear-groups sh -euc "$3"`
	cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-euc", enter, "sh", dir, uid, script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestHandout: with auth=container git in the container fetches and pushes, across restarts of the
// plugin, until the lease ends. Without the option it finds nothing.
func TestHandout(t *testing.T) {
	t.Parallel()
	data := scratch(t)
	p := start(t, data)
	const token = "tok3n-of-sample"
	s := private(t, p, token)
	repo := s.URL("sample")
	p.create("with", map[string]string{"repo": repo, "auth": "container", "uid": "1234", "gid": "1234"})
	p.create("without", map[string]string{"repo": repo})
	works := func(dir, uid, branch string) {
		t.Helper()
		out, err := inContainer(dir, uid, "git fetch -q; git ls-remote -q origin HEAD; git push -q origin HEAD:refs/heads/"+branch)
		if err != nil || strings.Contains(out, token) {
			t.Errorf("as %s: %v: %s", uid, err, out)
		}
	}
	with := p.mount("with", "1")
	works(with, "1234", "a")
	works(with, "0", "b")
	if out, err := inContainer(with, "0", "touch .git/helmdeck/x || echo no; rm .git/helmdeck/credential || echo no; git config --get-all credential."+repo+".helper"); err != nil ||
		strings.Count(out, "no\n") != 2 || strings.Contains(out, token) {
		t.Errorf("writes: %v: %s", err, out)
	}
	without := p.mount("without", "2")
	if out, err := inContainer(without, "0", "! test -e .git/helmdeck; ! git config --get-regexp credential; ! git fetch"); err != nil || strings.Contains(out, "helmdeck") {
		t.Errorf("without the option: %v: %s", err, out)
	}
	if out, err := inContainer(without, "0", "cat .git/config"); err != nil || strings.Contains(out, "credential") {
		t.Errorf("the config without the option: %v: %s", err, out)
	}

	p.stop()
	if out, err := inContainer(with, "1234", "git fetch"); err == nil || !strings.Contains(out, "helmdeck/repos: no credential, because the plugin does not answer\n") {
		t.Errorf("while the plugin is down: %v: %s", err, out)
	}
	p = start(t, data)
	var conn net.Conn
	if err := wait.Until(t, func() (err error) {
		conn, err = net.Dial("unix", filepath.Join(with, ".git/helmdeck/socket"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	works(with, "1234", "c")
	helper := p.helperOf("with")
	p.unmount("with", "1")
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a connection outlives the lease: %d, %v", n, err)
	}
	if _, err := os.Lstat(filepath.Join(helper, "socket")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket outlives the lease: %v", err)
	}
	// The container has changed what fetch and push write. A mount without changes leaves nothing.
	p.mount("with", "3")
	p.unmount("with", "3")
	if err := wait.Until(t, func() error {
		left, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*/workspaces/*/helper"))
		if len(left) != 1 || left[0] != helper {
			err = errors.Join(err, fmt.Errorf("want only %s, got %q", helper, left))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	p.checkpoints(t, 1)
	audit := 0
	if err := p.admin().Audit(t.Context(), api.AuditFilter{Action: "credential.handout"}, func(r api.AuditRecord) error {
		audit++
		if r.Volume != "with" || r.Name != "sample" || r.Workspace == "" || r.Subject != "default" || r.Repo != repo {
			t.Errorf("audit: %+v", r)
		}
		return nil
	}); err != nil || audit < 2 || audit > 4 { // one for each start, and each minute
		t.Errorf("%d records, %v", audit, err)
	}
	if strings.Contains(p.log.String(), token) {
		t.Error("the log has the token")
	}
}

// helperOf returns the directory of the credential helper of a volume's only workspace.
func (p *process) helperOf(volume string) string {
	p.t.Helper()
	list, err := p.admin().Workspaces(p.t.Context(), api.Filter{Volume: volume})
	if err != nil || len(list) != 1 {
		p.t.Fatalf("workspaces of %s: %+v, %v", volume, list, err)
	}
	return filepath.Join(p.at.data, "clones", list[0].Clone, "workspaces", list[0].ID, "helper")
}

// TestHandoutKept: the socket of a workspace that a volume keeps is there while it has a lease. Where
// a container put a link in place of the directory, the next mount has no helper, and says so.
func TestHandoutKept(t *testing.T) {
	t.Parallel()
	data := scratch(t)
	p := start(t, data)
	s := private(t, p, "tok3n")
	p.create("kept", map[string]string{"repo": s.URL("sample"), "auth": "container", "mode": "keep"})
	dir := p.mount("kept", "1")
	p.mount("kept", "2")
	p.unmount("kept", "1")
	if out, err := inContainer(dir, "0", "git fetch -q"); err != nil {
		t.Errorf("with one lease of two: %v: %s", err, out)
	}
	p.unmount("kept", "2")
	if out, err := inContainer(dir, "0", "test ! -e .git/helmdeck/socket; ! git fetch"); err != nil || !strings.Contains(out, "the plugin does not answer") {
		t.Errorf("without a lease: %v: %s", err, out)
	}
	p.mount("kept", "3")
	if out, err := inContainer(dir, "0", "git fetch -q"); err != nil {
		t.Errorf("with a lease again: %v: %s", err, out)
	}
	p.unmount("kept", "3")
	outside := filepath.Join(data, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	helper := p.helperOf("kept")
	p.stop()
	if out, err := exec.Command("umount", "-R", dir).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
	at := filepath.Join(filepath.Dir(helper), "upper/.git/helmdeck")
	if err := errors.Join(os.Remove(at), os.Symlink(outside, at)); err != nil {
		t.Fatal(err)
	}
	p = start(t, data)
	dir = p.mount("kept", "4")
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside has %v, %v", entries, err)
	}
	if mounted, err := exec.Command("findmnt", outside).CombinedOutput(); err == nil {
		t.Errorf("something is mounted outside: %s", mounted)
	}
	about, err := os.ReadFile(filepath.Join(dir, ".git/helmdeck.json"))
	if err != nil || !strings.Contains(string(about), `".git/helmdeck": "it could not be mounted`) {
		t.Errorf("helmdeck.json: %s, %v", about, err)
	}
	if _, err := os.Lstat(filepath.Join(helper, "socket")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a socket that no container can have: %v", err)
	}
	p.unmount("kept", "4")
}
