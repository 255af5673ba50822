package mint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver/tokenserver"
)

// hidden is a secret for a provider, and in its answers.
const hidden = "s3cr3t-5e1f"

const life = time.Hour

// newGitHub serves GitHub's API for one app.
func newGitHub(t *testing.T) (*tokenserver.GitHub, credential.Question) {
	t.Helper()
	g, err := tokenserver.NewGitHub("12345", life)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return g, credential.Question{
		Credential: credential.Credential{Name: "app", Kind: credential.GitHubApp, AppID: "12345", Secret: credential.NewSecret(g.Key())},
		Provider:   s.URL, Repository: "https://github.example/org/repo", Subject: "a", Access: credential.Fetch,
	}
}

func ask(t *testing.T, c Config, q credential.Question) (credential.Answer, error) {
	t.Helper()
	return New(c)[q.Kind].Ask(t.Context(), q)
}

// TestGitHub checks that the app gets a token for one repository, with the rights that it
// needs, and that a refusal says what to do.
func TestGitHub(t *testing.T) {
	t.Parallel()
	g, q := newGitHub(t)
	if _, err := ask(t, Config{}, q); giterror.KindOf(err) != giterror.KindCredential || !strings.Contains(err.Error(), `install the app for "org"`) {
		t.Errorf("before it is installed: %v", err)
	}
	g.Install("org/repo", "read")
	g.Install("org/other", "write")
	began := time.Now()
	a, err := ask(t, Config{}, q)
	if err != nil {
		t.Fatal(err)
	}
	if a.User != "x-access-token" || a.Secret.Reveal() != g.Secrets()[0] || a.Expires.Before(began.Add(life-time.Minute)) {
		t.Errorf("got %+v with %q", a, a.Secret.Reveal())
	}
	grant := func(a credential.Answer) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(a.User, a.Secret.Reveal())
		grant, ok := g.Grant(r)
		return fmt.Sprint(grant.Repository, " ", grant.Write, " ", ok)
	}
	if got, want := grant(a), "org/repo false true"; got != want {
		t.Errorf("the token is for %q, want %q", got, want)
	}
	push := q
	push.Access = credential.Push
	if _, err := ask(t, Config{}, push); giterror.KindOf(err) != giterror.KindCredential || !strings.Contains(err.Error(), "contents: write") {
		t.Errorf("an app that may only read: %v", err)
	}
	g.Install("org/repo", "write")
	if a, err = ask(t, Config{}, push); err != nil || grant(a) != "org/repo true true" {
		t.Errorf("got %q, %v", grant(a), err)
	}
	if got := g.Problems(); len(got) > 0 {
		t.Errorf("the server found %q", got)
	}
	for _, url := range []string{"https://github.example/org", "https://github.example/org/repo/more"} {
		q.Repository = url
		if _, err := ask(t, Config{}, q); err == nil || !strings.Contains(err.Error(), "https://host/owner/repository") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestGitHubProof checks that a proof is taken when the clocks differ a little, and what an
// error says if they differ more, or if the app is another one.
func TestGitHubProof(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		ahead  time.Duration // GitHub's clock
		change func(*credential.Question)
		want   string
	}{
		{"behind by a little", -50 * time.Second, nil, ""},
		{"ahead by a little", 7 * time.Minute, nil, ""},
		{"behind", -5 * time.Minute, nil, "set the clock of this machine: that of the provider differs by -"},
		{"ahead", time.Hour, nil, "set the clock of this machine: that of the provider differs by "},
		{"another app", 0, func(q *credential.Question) { q.AppID = "54321" }, "check the ID of the app"},
	} {
		g, q := newGitHub(t)
		g.Install("org/repo", "read")
		g.Advance(tt.ahead)
		if tt.change != nil {
			tt.change(&q)
		}
		_, err := ask(t, Config{}, q)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (giterror.KindOf(err) != giterror.KindCredential || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		case err != nil && (len(g.Problems()) == 0 || len(g.Secrets()) > 0):
			t.Errorf("%s: the server took it", tt.name)
		}
	}
}

func newService(t *testing.T) (*tokenserver.Service, credential.Question) {
	t.Helper()
	service := tokenserver.NewService(hidden, life)
	s := httptest.NewServer(service)
	t.Cleanup(s.Close)
	return service, question(s.URL + "/git")
}

func question(url string) credential.Question {
	return credential.Question{
		Credential: credential.Credential{Name: "broker", Kind: credential.HTTPProvider, Secret: credential.NewSecret(hidden)},
		Provider:   url, Repository: "https://h/org/repo", Subject: "team/\n\"a\"", Access: credential.Push,
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	s, q := newService(t)
	a, err := ask(t, Config{}, q)
	if err != nil || a.User != "robot" || a.Secret.Reveal() != s.Secrets()[0] {
		t.Errorf("got %+v, %v", a, err)
	}
	want := tokenserver.Question{Subject: "team/\n\"a\"", URL: "https://h/org/repo", Access: "push"}
	if got := s.Questions(); len(got) != 1 || got[0] != want {
		t.Errorf("it was asked %q, want %q", got, want)
	}
	s.Users(func(tokenserver.Question) (string, bool) { return "", true })
	if a, err = ask(t, Config{}, q); err != nil || a.User != "" {
		t.Errorf("a bearer token: %+v, %v", a, err)
	}
	s.Users(func(tokenserver.Question) (string, bool) { return "", false })
	if _, err := ask(t, Config{}, q); giterror.KindOf(err) != giterror.KindCredential || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("no right: %v", err)
	}
	q.Secret = credential.NewSecret("other")
	if _, err := ask(t, Config{}, q); giterror.KindOf(err) != giterror.KindCredential || !strings.Contains(err.Error(), "401 Unauthorized") {
		t.Errorf("another secret: %v", err)
	}
}

// says answers with a body.
func says(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// TestWrongAnswers checks the kinds of errors, and that none of them repeats what the
// provider said, which has the secret here.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprint(c, text)
		}
	}
	good := `{"user":"u","secret":"` + hidden + `","expires_at":"2999-01-01T00:00:00Z"`
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, tt := range []struct {
		name string
		h    http.Handler
		kind giterror.Kind
		want string
	}{
		{"good", says(200, js+"; charset=utf-8", good+"}"), "", ""},
		{"no JSON", says(200, js, hidden), giterror.KindCredential, "is not the JSON object"},
		{"a page", says(200, "text/html", good+"}"), giterror.KindCredential, "does not have the type application/json"},
		{"cut", says(200, js, good), giterror.KindCredential, "is not the JSON object"},
		{"twice", says(200, js, good+"}{}"), giterror.KindCredential, "more than one JSON object"},
		{"another field", says(200, js, good+`,"`+hidden+`":1}`), giterror.KindCredential, "is not the JSON object"},
		{"another type", says(200, js, `{"secret":1,"expires_at":"2999-01-01T00:00:00Z"}`), giterror.KindCredential, "is not the JSON object"},
		{"no time", says(200, js, `{"user":"u","secret":"`+hidden+`"}`), giterror.KindCredential, "no expires_at"},
		{"a wrong time", says(200, js, `{"user":"u","secret":"x","expires_at":"`+hidden+`"}`), giterror.KindCredential, "is not the JSON object"},
		{"huge", says(200, js, strings.Repeat(" ", maxBody)+good+"}"), giterror.KindCredential, "is longer than 262144 bytes"},
		{"deep", says(200, js, good+`,"x":`+strings.Repeat("[", maxBody/2)), giterror.KindCredential, "is not the JSON object"},
		{"a field again and again", says(200, js, `{"user":""`+strings.Repeat(`,"user":""`, maxBody/20)+`}`), giterror.KindCredential, "no expires_at"},
		{"zipped without content", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", js)
			w.Header().Set("Content-Encoding", "gzip")
			for text := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"; r.Context().Err() == nil; text = strings.Repeat("\x00\x00\x00\xff\xff", 10_000) {
				fmt.Fprint(w, text)
			}
		}), giterror.KindCredential, "is longer than 262144 bytes"},
		{"a huge header", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat(hidden, 20_000))
		}), giterror.KindServer, ""},
		{"created", says(201, js, good+"}"), giterror.KindCredential, "201 Created"},
		{"not found", says(404, js, hidden), giterror.KindCredential, "404 Not Found"},
		{"redirect", http.RedirectHandler(elsewhere.URL+"/"+hidden, http.StatusTemporaryRedirect), giterror.KindCredential, "a redirect is not followed"},
		{"busy", says(429, js, hidden), giterror.KindServer, "429"},
		{"in trouble", says(503, js, hidden), giterror.KindServer, "the provider is in trouble; try again"},
		{"switching", raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), giterror.KindCredential, "101"},
		{"no HTTP", raw(hidden + "\r\n\r\n"), giterror.KindServer, "is not HTTP"},
		{"a wrong header", raw("HTTP/1.1 200 OK\r\n" + hidden + "\r\n\r\n"), giterror.KindServer, "is not HTTP"},
		{"a reason", raw("HTTP/1.1 403 " + hidden + "\r\n\r\n"), giterror.KindCredential, "403 Forbidden"},
		{"broken", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, hidden)
		}), giterror.KindServer, "the provider is in trouble"},
		{"closed", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), giterror.KindServer, "the provider is in trouble"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(tt.h)
			defer s.Close()
			_, err := ask(t, Config{}, question(s.URL))
			check(t, err, tt.kind, tt.want)
		})
	}
}

func check(t *testing.T, err error, kind giterror.Kind, want string) {
	t.Helper()
	if got := giterror.KindOf(err); got != kind || kind == "" && err != nil {
		t.Fatalf("got %q: %v, want %q", got, err, kind)
	}
	if err == nil {
		return
	}
	if text := fmt.Sprintf("%v %+v", err, err); !strings.Contains(text, want) || !strings.Contains(text, `the credential "broker"`) || strings.Contains(text, hidden) {
		t.Errorf("got %.600s, want %q", text, want)
	}
}

// TestUnreachable checks that a provider without an answer is like a remote without one.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	release := make(chan struct{})
	defer close(release)
	stall := func(before string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if before != "" {
				fmt.Fprint(w, before)
				w.(http.Flusher).Flush()
			}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	secure := httptest.NewTLSServer(says(200, "application/json", `{"user":"u","secret":"x","expires_at":"2999-01-01T00:00:00Z"}`))
	defer secure.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	for _, tt := range []struct {
		name, url string
		config    Config
		kind      giterror.Kind
	}{
		{"port closed", gone.URL, Config{}, giterror.KindRefused},
		{"host unknown", "https://nowhere.invalid/x", Config{}, giterror.KindHost},
		{"silent", stall(""), Config{Timeout: 200 * time.Millisecond}, giterror.KindTimeout},
		{"silent within its answer", stall("{"), Config{Timeout: 200 * time.Millisecond}, giterror.KindTimeout},
		{"unknown authority", secure.URL, Config{}, giterror.KindTLS},
		{"no TLS", strings.Replace(stall(""), "http://", "https://", 1), Config{}, giterror.KindServer},
		{"known authority", secure.URL, Config{TLS: &tls.Config{RootCAs: trusted}}, ""},
	} {
		_, err := ask(t, tt.config, question(tt.url))
		t.Run(tt.name, func(t *testing.T) { check(t, err, tt.kind, "") })
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	hungUp := errors.New("hung up")
	cancel(hungUp)
	if _, err := New(Config{})[credential.HTTPProvider].Ask(ctx, question(gone.URL)); !errors.Is(err, hungUp) {
		t.Errorf("got %v, want the cause", err)
	}
}

// TestProxy checks that requests go through the proxy of the settings.
func TestProxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go proxy.Serve(l)
	defer proxy.Close()
	c := Config{Proxy: http.ProxyURL(mustParse(t, "http://"+l.Addr().String()))}
	_, err = ask(t, c, question("https://broker.example/x"))
	if got, want := <-asked, "CONNECT broker.example:443"; got != want || giterror.KindOf(err) != giterror.KindServer {
		t.Errorf("the proxy got %q, want %q; %v", got, want, err)
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
