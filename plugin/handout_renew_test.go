package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/tokenserver"
)

// TestHandoutRenewed checks that a revoked token of a GitHub App is replaced once for all containers
// that have it, and that they can't make the plugin ask for one token after the other.
func TestHandoutRenewed(t *testing.T) {
	t.Parallel()
	p, s := start(t, scratch(t)), remote(t)
	app, err := tokenserver.NewGitHub("12345", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	app.Install("team/app", "read")
	s.Route("team/app", app.Guard(func(tokenserver.Grant) bool { return true }))
	if err := os.Mkdir(filepath.Dir(s.Path("team/app")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.Path("sample"), s.Path("team/app")); err != nil {
		t.Fatal(err)
	}
	repo := s.URL("team/app")
	put := func() {
		t.Helper()
		if err := p.admin().PutCredential(t.Context(), "gh", api.PutCredential{
			Kind: api.GitHubApp, Scope: strings.TrimSuffix(repo, "/app"), AppID: "12345", API: server.URL, Secret: app.Key(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	const containers = 6
	var dirs []string
	for i := range containers {
		name := fmt.Sprint("v", i)
		p.create(name, map[string]string{"repo": repo, "auth": "container", "subject": fmt.Sprint("s", i%2)})
		dirs = append(dirs, p.mount(name, "1"))
	}
	all := func(script string) {
		t.Helper()
		var each sync.WaitGroup
		for _, dir := range dirs {
			each.Go(func() {
				if out, err := inContainer(dir, "0", script); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		each.Wait()
	}
	want := func(when string, tokens int) {
		t.Helper()
		if got := len(app.Secrets()); got != tokens {
			t.Errorf("%s: %d tokens were given, want %d", when, got, tokens)
		}
	}
	all("git fetch -q")
	want("at first", 1)
	all(`for i in 1 2 3; do printf 'url=` + repo + `\n\n' | git credential fill >c; git credential reject <c; done; rm c`)
	want("after lies about it and the next ones", 2)
	all("git fetch -q")
	put()
	all("git fetch -q")
	want("put again", 3)
	app.Revoke()
	all("git fetch -q 2>/dev/null || git fetch -q")
	want("after a revocation", 4)
	if got := app.Problems(); len(got) > 0 {
		t.Errorf("the API found %q", got)
	}
}
