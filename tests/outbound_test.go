package tests

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/tokenserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// Work leaves sandboxes. A container without a network and without a credential commits for longer than a
// token lives: the host pushes its branch. One with auth=container fetches and pushes by itself. One without
// it finds nothing. What the first one left as a checkpoint is looked at, exported and pushed.
func TestWorkLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, repo := shared(t), "team/app"
	server := testgit.Serve(t)
	if err := os.Mkdir(filepath.Dir(server.Path(repo)), 0o755); err != nil { // the owner, who has installed the app
		t.Fatal(err)
	}
	r := remote{server, server.URL(repo), testgit.Generate(t, server, repo, gitserver.Spec{Seed: 1, Files: 40, Commits: 3})}
	tokens, err := tokenserver.NewGitHub("12345", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tokens.Install(repo, "write")
	server.Route(repo, tokens.Guard(func(g tokenserver.Grant) bool { return g.Repository == repo }))
	provider := httptest.NewServer(tokens)
	t.Cleanup(provider.Close)
	s := subject(t)
	repos := func(args ...string) string {
		t.Helper()
		cmd := e.reposAs(t, "unix://"+e.Path("sock"), e.group(t), args...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("docker repos %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if err := e.admin(t).PutCredential(t.Context(), s, api.PutCredential{
		Kind: api.GitHubApp, Scope: strings.TrimSuffix(r.url, "/app"), Subject: s, AppID: "12345", API: provider.URL, Secret: tokens.Key(), Allow: api.AllowPush,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.admin(t).RemoveCredential(t.Context(), s) })
	tip := func(branch string) string { return hostGit(t, server.Path(repo), "rev-parse", "refs/heads/"+branch) }
	commit := func(c container, branch, file string) string {
		t.Helper()
		return c.sh(t, "git switch -q -C "+branch+"; echo work >"+file+"; git add .; git commit -q -m "+file+"; git rev-parse HEAD")
	}

	e.create(t, s, "repo="+r.url, "subject="+s)
	alone := container{e, e.docker(t, "run", "--detach", "--network", "none", "--stop-signal", "KILL", "--mount", mount(s), image, "sleep", "1000000")}
	t.Cleanup(func() { e.Try("rm", "--force", alone.id) })
	commit(alone, "fix", "first")
	tokens.Revoke() // an hour has passed
	second := commit(alone, "fix", "second")
	if got := alone.sh(t, "ls .git/helmdeck 2>/dev/null || true; grep -ri -e credential -e 'helmdeck/' .git/config || true; env | grep -i -e token -e ghs_ || true"); got != "" {
		t.Errorf("without the option the container finds %q", got)
	}
	repos("push", s, "fix:agents/1")
	if got := tip("agents/1"); got != second {
		t.Errorf("the remote has %s, the container committed %s", got, second)
	}

	own := s + "-own"
	e.create(t, own, "repo="+r.url, "subject="+s, "auth=container")
	c := e.sleeper(t, mount(own), "--env", "GIT_TERMINAL_PROMPT=0")
	tokens.Revoke() // git says that this one is refused, and gets another one
	if got := c.sh(t, "git fetch -q 2>/dev/null || git fetch -q; git rev-parse origin/agents/1"); got != second {
		t.Errorf("with the option it fetched %s, want %s", got, second)
	}
	pushed := commit(c, "mine", "mine")
	c.sh(t, "git push -q origin mine")
	if got := tip("mine"); got != pushed {
		t.Errorf("with the option it pushed %s, the remote has %s", pushed, got)
	}

	third := commit(alone, "fix", "third")
	alone.sh(t, "echo not committed >loose; git rm -q --cached second; rm second")
	alone.remove(t)
	var id string
	wait.For(t, "the checkpoint", func() error {
		list, err := e.admin(t).Checkpoints(t.Context(), api.Filter{Volume: s})
		if err == nil && len(list) == 0 {
			err = errors.New("none yet")
		}
		if err == nil {
			id = list[0].ID
		}
		return err
	})
	status := repos("status", id)
	for _, want := range []string{"loose", "third", "fix", third[:12]} {
		if !strings.Contains(status, want) {
			t.Errorf("status lacks %q:\n%s", want, status)
		}
	}
	if diff := repos("diff", id); !strings.Contains(diff, "+not committed") || !strings.Contains(diff, "b/third") || strings.Contains(diff, "b/second") {
		t.Errorf("diff:\n%s", diff)
	}
	dir := e.Path("exported") // the user of the command writes there
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	repos("export", id, "-o", filepath.Join(dir, "changes.tar"))
	repos("export", id, "--bundle", "-o", filepath.Join(dir, "work.bundle"))
	names := strings.Fields(e.shell(t, "tar -tf "+filepath.Join(dir, "changes.tar")))
	for _, want := range []string{"first", "third", "loose"} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive has %q, want %q too", names, want)
		}
	}
	if heads := hostGit(t, server.Path(repo), "bundle", "list-heads", filepath.Join(dir, "work.bundle")); !strings.Contains(heads, third+" refs/heads/fix") {
		t.Errorf("the bundle has %q", heads)
	}
	repos("push", id, "fix:agents/1")
	if got := tip("agents/1"); got != third {
		t.Errorf("the remote has %s, the checkpoint %s", got, third)
	}
	hostGit(t, server.Path(repo), "fsck", "--strict")
	if got := tokens.Problems(); len(got) > 0 {
		t.Errorf("the API of the tokens found %q", got)
	}
}
