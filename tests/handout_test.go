package tests

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// anyOwner lets git work in a checkout of another uid.
var anyOwner = []string{"--env", "GIT_CONFIG_COUNT=1", "--env", "GIT_CONFIG_KEY_0=safe.directory", "--env", "GIT_CONFIG_VALUE_0=*", "--env", "GIT_TERMINAL_PROMPT=0"}

// With auth=container a container without a credential fetches and pushes, as any user, also after the
// plugin was killed, until its lease ends. A container without the option finds nothing.
func TestContainerCredential(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	const token = "t0ken-of-the-app"
	put := func(login gitserver.Login, c api.PutCredential) {
		t.Helper()
		r.Protect(app, login)
		c.Scope, c.Secret = r.url, token
		if err := e.admin(t).PutCredential(t.Context(), "app", c); err != nil {
			t.Fatal(err)
		}
	}
	put(gitserver.Login{User: "me", Password: token}, api.PutCredential{Kind: api.HTTPS, User: "me"})
	name := subject(t)
	e.create(t, name, "repo="+r.url, "ref=main", "auth=container", "uid=1234", "gid=1234", "subject="+name)
	c := e.sleeper(t, mount(name))
	pushes := func(when, user string) {
		t.Helper()
		branch := strings.ReplaceAll(when+" "+user, " ", "-")
		script := fmt.Sprintf("mkdir -p sub; cd sub; git fetch -q; git commit -q --allow-empty -m %s; git push -q origin HEAD:refs/heads/%[1]s; git rev-parse HEAD", branch)
		if got, want := c.sh(t, script, append([]string{"--user", user}, anyOwner...)...), r.tip(t, branch); got != want {
			t.Errorf("%s: pushed %s, the server has %s", branch, got, want)
		}
	}
	pushes("at first", "1234")
	for _, user := range []string{"0", "99"} { // who must leave no files in .git that the volume's user can't write
		got := c.sh(t, "git ls-remote -q origin refs/heads/main | cut -f 1; git push -q origin HEAD:refs/heads/of-"+user+" 2>/dev/null", append([]string{"--user", user}, anyOwner...)...)
		if got != r.head || r.tip(t, "of-"+user) == r.head {
			t.Errorf("as the user %s: main is %s, want %s; pushed %s", user, got, r.head, r.tip(t, "of-"+user))
		}
	}
	if got := c.sh(t, "touch .git/helmdeck/x || echo no; cat /proc/self/environ .git/config .git/helmdeck/* 2>/dev/null | grep -c "+token+" || true"); got != "no\n0" {
		t.Errorf("in the container: %q", got)
	}
	e.create(t, name+"-off", "repo="+r.url, "ref=main", "subject="+subject(t))
	said := e.sh(t, mount(name+"-off"), "ls .git/helmdeck 2>&1 || true; grep -i -e 'helmdeck/' -e credential .git/config || true; git fetch 2>&1 || true", anyOwner...)
	if strings.Count(said, "helmdeck") != 1 || !strings.Contains(said, "could not read Username") { // ls names it
		t.Errorf("without the option: %s", said)
	}

	pid := e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.pluginPID(t, pid)
	fetch := append(append([]string{"exec", "--workdir", "/w"}, anyOwner...), c.id, "git", "fetch", "-q")
	wait.For(t, "the plugin serves the container again", func() error {
		_, err := e.Try(fetch...)
		return err
	})
	pushes("after a crash", "1234")
	put(gitserver.Login{Bearer: token}, api.PutCredential{Kind: api.Bearer}) // the image has git 2.47
	pushes("with a bearer token", "1234")

	// An upgrade disables the plugin by force, so the container loses its lease.
	e.disable(t)
	e.enable(t)
	if out, err := e.Try(fetch...); err == nil || !strings.Contains(out+err.Error(), "helmdeck/repos: no credential, because .git/helmdeck is not mounted here") {
		t.Errorf("without a lease: %v: %s", err, out)
	}
	e.docker(t, "restart", "--time", "0", c.id)
	pushes("after a restart", "1234")
	c.remove(t)
	e.awaitReclaimed(t, name)
}
