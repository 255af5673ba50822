package tests

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/gitserver"
)

// anyOwner lets git work in a checkout of another uid.
var anyOwner = []string{"--env", "GIT_CONFIG_COUNT=1", "--env", "GIT_CONFIG_KEY_0=safe.directory", "--env", "GIT_CONFIG_VALUE_0=*", "--env", "GIT_TERMINAL_PROMPT=0"}

// With auth=container a container without a credential fetches and pushes, as any user, also after the
// plugin was killed, until its lease ends. A container without the option finds nothing.
func TestContainerCredential(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	const token = "t0ken-of-the-app"
	for name, kind := range map[string]struct {
		login gitserver.Login
		put   api.PutCredential
	}{
		"https":  {gitserver.Login{User: "me", Password: token}, api.PutCredential{Kind: api.HTTPS, User: "me"}},
		"bearer": {gitserver.Login{Bearer: token}, api.PutCredential{Kind: api.Bearer}},
	} {
		r.Protect(app, kind.login)
		kind.put.Scope, kind.put.Secret = r.url, token
		if err := e.admin(t).PutCredential(t.Context(), "app", kind.put); err != nil {
			t.Fatal(err)
		}
		name = "credential-" + name
		e.create(t, name, "repo="+r.url, "ref=main", "auth=container", "uid=1234", "gid=1234", "subject="+subject(t))
		c := e.sleeper(t, mount(name))
		pushes := func(when, user string) {
			t.Helper()
			branch := strings.ReplaceAll(name+" "+when+" "+user, " ", "-")
			script := fmt.Sprintf("mkdir -p sub; cd sub; git fetch -q; git commit -q --allow-empty -m %s; git push -q origin HEAD:refs/heads/%[1]s; git rev-parse HEAD", branch)
			if got, want := c.sh(t, script, append([]string{"--user", user}, anyOwner...)...), r.tip(t, branch); got != want {
				t.Errorf("%s: pushed %s, the server has %s", branch, got, want)
			}
		}
		pushes("at first", "1234")
		pushes("at first", "0")
		if got := c.sh(t, "touch .git/helmdeck/x || echo no; cat /proc/self/environ .git/config .git/helmdeck/* 2>/dev/null | grep -c "+token+" || true"); got != "no\n0" {
			t.Errorf("%s: in the container: %q", name, got)
		}

		e.create(t, name+"-off", "repo="+r.url, "ref=main", "subject="+subject(t))
		said := e.sh(t, mount(name+"-off"), "ls .git/helmdeck 2>&1 || true; grep -i -e helmdeck -e credential .git/config || true; git fetch 2>&1 || true", anyOwner...)
		if strings.Count(said, "helmdeck") != 1 || !strings.Contains(said, "could not read Username") { // ls names it
			t.Errorf("%s: without the option: %s", name, said)
		}

		pid := e.pluginPID(t, 0)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		e.pluginPID(t, pid)
		eventually(t, "the plugin serves the container again", func() error {
			_, err := e.Try(append(append([]string{"exec"}, anyOwner...), c.id, "git", "-C", "/w", "ls-remote", "-q", "origin")...)
			return err
		})
		pushes("after a crash", "1234")

		// An upgrade disables the plugin by force, so the container loses its lease.
		e.disable(t)
		e.enable(t)
		if out, err := e.Try(append(append([]string{"exec"}, anyOwner...), c.id, "git", "-C", "/w", "fetch")...); err == nil ||
			!strings.Contains(out+err.Error(), "helmdeck/repos: no credential, because the plugin does not answer") {
			t.Errorf("%s: without a lease: %v: %s", name, err, out)
		}
		e.docker(t, "restart", "--time", "0", c.id)
		pushes("after a restart", "1234")
		c.remove(t)
	}
	e.awaitReclaimed(t, subject(t))
}
