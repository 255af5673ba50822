package remotes

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/internal/git/gitserver/tokenserver"
	"github.com/helmdeck/repos/tests/wait"
)

// serveHTTP serves h on the loopback, until the end of the test.
func serveHTTP(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// githubApp starts an API for an app, and guards the repository of s: a token must be for it.
func githubApp(t *testing.T, s remote, more ...gitserver.Fault) (*tokenserver.GitHub, credential) {
	t.Helper()
	g, err := tokenserver.NewGitHub("12345", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	guard := g.Guard(func(grant tokenserver.Grant) bool { return grant.Repository == app })
	s.Route(app, append([]gitserver.Fault{guard}, more...)...)
	return g, credential{"gh", api.PutCredential{
		Kind: api.GitHubApp, Scope: hostOf(s.url) + "/team", AppID: "12345", API: serveHTTP(t, g), Secret: g.Key(),
	}}
}

const serviceSecret = "svc-3c9b71f04e"

// service starts a provider over HTTP, and guards the repository of s: a secret must be for
// it and for the subject that allowed names, or for any if that is empty.
func service(t *testing.T, s remote, life time.Duration) (*tokenserver.Service, credential) {
	t.Helper()
	v := tokenserver.NewService(serviceSecret, life)
	s.Route(app, v.Guard(func(grant tokenserver.Grant) bool { return grant.Repository == s.url }))
	return v, credential{"broker", api.PutCredential{
		Kind: api.HTTPProvider, Scope: hostOf(s.url), URL: serveHTTP(t, v) + "/git", Secret: serviceSecret,
	}}
}

// TestGitHubApp checks that a token is asked for once, used until it ends or is refused, and
// then asked for again: in this process, by git, and for LFS.
func TestGitHubApp(t *testing.T) {
	t.Parallel()
	lfs := new(lfsserver.Server)
	s, p := serve(t), start(t)
	g, c := githubApp(t, s, lfs.Serve)
	p.putCredential(c)
	err := p.create("early", "repo="+s.url)
	if err := checkError(err, "credential can't be used", `the credential "gh"`, `install the app for "team"`); err != nil {
		t.Error(err)
	}
	addLine("app not installed", "create: "+err.Error())
	g.Install(app, "read")
	p.putCredential(c) // else the failure is held for some seconds
	for i, step := range []struct {
		name   string
		before func()
		tokens int
	}{
		{"the first", func() {}, 1},
		{"another subject", func() {}, 1},
		{"in this process, after a refusal", g.Revoke, 2},
		{"put again", func() { p.putCredential(c) }, 3}, // else a refusal in the same minute changes nothing
		{"by git, after a refusal", func() { g.Revoke(); s.Wrap(gitserver.ProtocolZero()) }, 4},
		{"by git", func() {}, 4},
		{"once more", func() { s.Wrap(nil) }, 4},
	} {
		step.before()
		head := s.commit(t, "main")
		if i > 1 {
			pointer := lfs.Put(fmt.Sprint("content ", i))
			if head, err = gitserver.Commit(s.Path(app), "main", gitserver.Change{Path: ".gitattributes", Content: lfsserver.Attributes}, gitserver.Change{Path: "f.bin", Content: pointer.String()}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.createAndCheck(fmt.Sprint("v", i), head, "repo="+s.url); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := len(g.Secrets()); got != step.tokens {
			t.Errorf("%s: %d tokens were given, want %d", step.name, got, step.tokens)
		}
	}
	if got := g.Problems(); len(got) > 0 {
		t.Errorf("the API found %q", got)
	}
	list, err := p.Admin.Credentials(t.Context(), api.Filter{})
	if err != nil || len(list) != 1 || list[0].AppID != "12345" || list[0].Allow != api.AllowFetch || list[0].Failed != "" {
		t.Errorf("the list: %+v, %v", list, err)
	}
	// LFS asks with a token that was revoked since the commit was fetched.
	p.putCredential(c)
	pointer, revoked := lfs.Put("late"), false
	head, err := gitserver.Commit(s.Path(app), "main", gitserver.Change{Path: "f.bin", Content: pointer.String()})
	if err != nil {
		t.Fatal(err)
	}
	s.Route(app, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/objects/batch") && !revoked {
				revoked = true
				g.Revoke()
			}
			next.ServeHTTP(w, r)
		})
	}, g.Guard(func(grant tokenserver.Grant) bool { return grant.Repository == app }), lfs.Serve)
	if err := p.createAndCheck("lfs", head, "repo="+s.url); err != nil || !revoked {
		t.Errorf("LFS: %v, asked: %v", err, revoked)
	}
	// A token that was just given and is refused is not asked for again.
	other, err := tokenserver.NewGitHub("54321", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s.Route(app, other.Guard(func(tokenserver.Grant) bool { return true }))
	p.putCredential(c)
	asked := len(g.Secrets())
	g.Revoke()
	err = p.create("refused", "repo="+s.url)
	if err := checkError(err, "authentication failed", `refused the stored credential "gh"`); err != nil {
		t.Error(err)
	}
	if got := len(g.Secrets()) - asked; got != 1 {
		t.Errorf("%d tokens were given for a remote that refuses them, want 1", got)
	}
	addLine("app token refused", "create: "+err.Error())
}

// TestServiceGivesSecrets checks what a service is asked, and that its secrets are used for
// one subject and repository, until the credential is removed.
func TestServiceGivesSecrets(t *testing.T) {
	t.Parallel()
	s, p := serve(t), start(t)
	v, c := service(t, s, time.Hour)
	p.putCredential(c)
	v.Users(func(q tokenserver.Question) (string, bool) {
		return map[string]string{"one": "robot", "two": ""}[q.Subject], q.Subject != "three"
	})
	for _, subject := range []string{"one", "two"} {
		for range 2 {
			if err := p.createAndCheck(subject, s.commit(t, "main"), "repo="+s.url); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
		}
	}
	want := []tokenserver.Question{{Subject: "one", URL: s.url, Access: "fetch"}, {Subject: "two", URL: s.url, Access: "fetch"}}
	if got := v.Questions(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it was asked %v, want %v", got, want)
	}
	err := p.create("three", "repo="+s.url)
	if err := checkError(err, "credential can't be used", `the credential "broker"`, "403 Forbidden"); err != nil {
		t.Error(err)
	}
	list, err := p.Admin.Credentials(t.Context(), api.Filter{})
	if err != nil || len(list) != 1 || list[0].ExpiresAt == nil || !strings.Contains(list[0].Failed, "403") || list[0].Provider != c.URL {
		t.Errorf("the list: %+v, %v", list, err)
	}
	if err := p.Admin.RemoveCredential(t.Context(), "broker"); err != nil {
		t.Fatal(err)
	}
	s.commit(t, "main")
	if _, err := p.mount("one", "x"); checkError(err, "authentication failed") != nil {
		t.Errorf("after the removal: %v", err)
	}
	p.putCredential(c)
	p.restart()
	if err := p.mountAndCheck("one", s.commit(t, "main")); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// providerFault is a fault of a provider. words must be in the error of a mount.
type providerFault struct {
	name  string
	h     http.HandlerFunc
	words []string
	stale bool // stale_if_error helps
}

func answers(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

var providerFaults = []providerFault{
	{"provider: 401", answers(401, "text/plain", serviceSecret), []string{"credential can't be used", "401", "ask its operator"}, false},
	{"provider: 403", answers(403, "text/plain", serviceSecret), []string{"credential can't be used", "403", "ask its operator"}, false},
	{"provider: 404", answers(404, "text/plain", serviceSecret), []string{"credential can't be used", "404"}, false},
	{"provider: 429", answers(429, "text/plain", serviceSecret), []string{"server error", "429", "try again"}, true},
	{"provider: 503", answers(503, "text/plain", serviceSecret), []string{"server error", "503", "try again"}, true},
	{"provider: redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/"+serviceSecret, http.StatusTemporaryRedirect)
	}, []string{"credential can't be used", "a redirect is not followed"}, false},
	{"provider: a page instead of JSON", answers(200, "text/html", "<p>"+serviceSecret), []string{"credential can't be used", "application/json"}, false},
	{"provider: wrong JSON", answers(200, "application/json", `{"token":"`+serviceSecret+`"}`), []string{"credential can't be used", "JSON object"}, false},
	{"provider: no expiry", answers(200, "application/json", `{"secret":"`+serviceSecret+`"}`), []string{"credential can't be used", "expires_at"}, false},
	{"provider: expired secret", answers(200, "application/json", `{"secret":"`+serviceSecret+`","expires_at":"2020-01-01T00:00:00Z"}`),
		[]string{"credential can't be used", "is in the past", "clock"}, false},
	{"provider: line break in the secret", answers(200, "application/json", `{"user":"u","secret":"`+serviceSecret+`\n","expires_at":"2999-01-01T00:00:00Z"}`),
		[]string{"credential can't be used", "line break"}, false},
	{"provider: huge answer", answers(200, "application/json", strings.Repeat(" ", 1<<20)), []string{"credential can't be used", "longer than"}, false},
	{"provider: silent", func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server sees the end of the request only then
		<-r.Context().Done()
	}, []string{"timeout"}, true},
	{"provider: closes the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{"server error", "try again"}, true},
}

// TestProviderFaults mounts while a provider fails: with the error that the table has, and
// with the last commit if the provider does not answer and stale_if_error allows that.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	s, p := serve(t), startImpatient(t)
	v, c := service(t, s, 2*time.Second)
	p.putCredential(c)
	for name, within := range map[string]string{"stale": "1h", "none": "0s"} {
		if err := p.createAndCheck(name, s.head, "repo="+s.url, "stale_if_error="+within); err != nil {
			t.Fatal(err)
		}
	}
	check := func(f providerFault) {
		v.Fail(f.h)
		v.Revoke()
		p.putCredential(c) // so that neither a secret nor a failure is held
		_, err := p.mount("none", "x")
		if err := checkError(err, append(f.words, `the credential "broker"`, s.url)...); err != nil {
			t.Errorf("%s: %v", f.name, err)
			return
		}
		if strings.Contains(err.Error(), serviceSecret) {
			t.Errorf("%s: the error has the secret: %v", f.name, err)
		}
		addLine(f.name, "mount: "+err.Error())
		_, err = p.mount("stale", "x")
		if (err == nil) != f.stale {
			t.Errorf("%s: with stale_if_error: %v", f.name, err)
		}
		if err == nil {
			p.unmount("stale", "x")
		}
	}
	for _, f := range providerFaults {
		check(f)
	}
	v.Fail(nil)
	p.putCredential(c)
	head := s.commit(t, "main")
	if err := p.mountAndCheck("none", head); err != nil {
		t.Errorf("when the provider is well again: %v", err)
	}
	addLine("provider: well again", "")

	// One that fails is asked once for a Create with its Mount, and then again.
	v.Fail(answers(503, "text/plain", serviceSecret))
	p.putCredential(c)
	asked := v.Asked()
	if err := p.create("one", "repo="+s.url, "subject=another"); err != nil {
		t.Errorf("create: %v", err) // the remote may be in trouble for a moment
	}
	if _, err := p.mount("one", "x"); checkError(err, "server error", "503") != nil {
		t.Errorf("mount: %v", err)
	}
	if got := v.Asked() - asked; got != 1 {
		t.Errorf("it was asked %d times for a Create with its Mount, want once", got)
	}
	v.Fail(nil)
	if err := wait.Until(t, func() error { return p.mountAndCheck("one", head) }); err != nil {
		t.Errorf("503, then 200: %v", err)
	}
	addLine("provider: 503, then 200", "")

	c.URL = "http://127.0.0.1:1/git"
	check(providerFault{name: "provider: port refused", words: []string{"connection refused"}, stale: true})
	c.URL = "https://nowhere.invalid/git"
	check(providerFault{name: "provider: host unknown", words: []string{"host unknown"}, stale: true})
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	c.URL = untrusted.URL
	check(providerFault{name: "provider: TLS authority unknown", words: []string{"tls", "unknown authority"}, stale: false})
}
