package githttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestGit asks a real git server for what git itself says.
func TestGit(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	testgit.Generate(t, s, "r", gitserver.Spec{Seed: 1, Files: 3})
	id := testgit.Git(t, s.Path("r"), "rev-parse", "refs/heads/main")
	c := New(Config{})
	for range 2 {
		got, err := c.LsRefs(t.Context(), Remote{URL: s.URL("r")}, []string{"refs/heads/main", "refs/heads/none"})
		want := gitref.Answer{Head: "refs/heads/main", Format: gitref.SHA1, IDs: map[string]string{"HEAD": id, "refs/heads/main": id}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	if stats := s.Stats("r"); stats.Infos != 1 || stats.LsRefs != 2 {
		t.Errorf("%+v, want two questions, and one for the capabilities", stats)
	}
}

func TestOneRequestOnAnOpenConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		http2 bool
	}{{"HTTP/1.1", false}, {"HTTP/2", true}} {
		f := serve(t, func(s *httptest.Server) { s.EnableHTTP2 = c.http2 })
		client := f.client()
		f.mustAsk(t, client, Remote{URL: f.URL + "/r"})
		f.want(t, 1, "GET", "POST")
		f.mustAsk(t, client, Remote{URL: f.URL + "/r"})
		f.want(t, 0, "POST")
		// The first answer about one repository says nothing about another.
		f.mustAsk(t, client, Remote{URL: f.URL + "/other"})
		f.want(t, 0, "GET", "POST")

		// A closed connection is replaced, and its TLS session is resumed.
		f.CloseClientConnections()
		f.mustAsk(t, client, Remote{URL: f.URL + "/r"})
		requests, conns := f.took()
		if conns != 1 || requests[len(requests)-1] != "POST" || f.resumed == 0 {
			t.Errorf("%s: %q on %d connections, %d resumed requests", c.name, requests, conns, f.resumed)
		}
	}
}

// TestClosedWithinARequest closes connections when a question has arrived, in the middle of its answer,
// and, over HTTP/2, with GOAWAY.
func TestClosedWithinARequest(t *testing.T) {
	t.Parallel()
	for name, hangUp := range map[string]http.HandlerFunc{
		"before the answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"in the answer": func(w http.ResponseWriter, _ *http.Request) {
			reply(w, typePrefix+"-result", refs[:70])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"after a cut answer": func(w http.ResponseWriter, _ *http.Request) { reply(w, typePrefix+"-result", refs[:70]) },
		"goaway": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close") // HTTP/2 servers send GOAWAY then
			answer(w, r)
		},
	} {
		for _, http2 := range []bool{false, true} {
			f := serve(t, func(s *httptest.Server) { s.EnableHTTP2 = http2 })
			client, r := f.client(), Remote{URL: f.URL + "/r"}
			f.mustAsk(t, client, r)
			once := sync.OnceFunc(func() { f.set(answer) })
			f.set(func(w http.ResponseWriter, r *http.Request) { once(); hangUp(w, r) })
			if err := f.ask(client, r); err != nil {
				t.Errorf("%s, HTTP/2 %v: %v", name, http2, err)
			}
			f.mustAsk(t, client, r)
		}
	}
}

// TestRestart asks a server that was stopped and started again at its address.
func TestRestart(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	client, r := f.client(), Remote{URL: f.URL + "/r"}
	f.mustAsk(t, client, r)
	address := f.Listener.Addr().String()
	f.Close()
	if err := f.ask(client, r); err == nil {
		t.Error("a server that is down gave an answer")
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &http.Server{Handler: http.HandlerFunc(answer)}
	defer again.Close()
	go again.Serve(l)
	f.mustAsk(t, client, r)
}

// TestReopened waits until a connection that the server has closed for idleness is open again.
func TestReopened(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		f := serve(t, func(s *httptest.Server) {
			s.EnableHTTP2 = http2
			s.Config.IdleTimeout = idleAtLeast + idleAtLeast/2
		})
		client := f.client()
		client.config.Go = func(f func(context.Context)) { go f(context.Background()) }
		f.mustAsk(t, client, Remote{URL: f.URL + "/r", User: "u", Password: "secret"})
		f.want(t, 1, "GET", "POST")
		wait.For(t, "the connection to be opened again", func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			return wait.Check(len(f.requests) > 0, "no request")
		})
		f.want(t, 1, "GET") // without the credential
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	client := f.client()
	with := Remote{URL: f.URL + "/r", User: "u", Password: "pass"}
	f.mustAsk(t, client, with)
	f.want(t, 1, "GET", "POST") // a public repository: nobody asked for the credential

	f.set(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+password != "upass" && r.Header.Get("Authorization") != "Bearer t" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, r)
	})
	const basic = " Basic dTpwYXNz"
	f.mustAsk(t, client, with)
	f.want(t, 1, "POST", "GET", "GET"+basic, "POST"+basic)
	f.mustAsk(t, client, with)
	f.want(t, 0, "POST"+basic)
	f.mustAsk(t, client, Remote{URL: f.URL + "/r", Bearer: "t"})
	f.want(t, 1, "GET", "GET Bearer t", "POST Bearer t")
	for _, wrong := range []Remote{{URL: f.URL + "/r"}, {URL: f.URL + "/r", User: "u", Password: "old"}} {
		err := f.ask(client, wrong)
		if status, ok := errors.AsType[*StatusError](err); !ok || status.Code != http.StatusUnauthorized {
			t.Errorf("%v: got %v", wrong, err)
		}
		if _, conns := f.took(); conns != 1 {
			t.Errorf("%d new connections, want one of this credential's own", conns)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", with, with, &with); strings.Contains(text, "pass") {
		t.Errorf("the remote shows its password: %s", text)
	}
}

// TestPasswordForBasicAlone checks that a password is not sent to a server that wants something else.
func TestPasswordForBasicAlone(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.set(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Digest realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	r := Remote{URL: f.URL + "/r", User: "u", Password: "pass"}
	if err := f.ask(f.client(), r); err == nil {
		t.Error("an answer without a credential")
	}
	f.want(t, 1, "GET")
	if err := f.client().Probe(t.Context(), r); err == nil {
		t.Error("a probe without a credential succeeded")
	}
	f.want(t, 1, "GET")
}

// TestSwitchingProtocols: a server that takes the connection over does not hold a question.
func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	release := make(chan struct{})
	defer close(release)
	f.set(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-release
	})
	err := f.ask(f.client(), Remote{URL: f.URL + "/r"})
	if status, ok := errors.AsType[*StatusError](err); !ok || status.Code != http.StatusSwitchingProtocols {
		t.Errorf("got %v", err)
	}
}

// TestServiceLine accepts the line with which some servers begin also in protocol 2.
func TestServiceLine(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, advertisement, "001e# service=git-upload-pack\n0000"+capabilities)
			return
		}
		answer(w, r)
	})
	f.mustAsk(t, f.client(), Remote{URL: f.URL + "/r/"})
}

// TestOtherProtocolIsRemembered checks that a server without protocol 2 is not asked again at each
// question, and that one that had it is.
func TestOtherProtocolIsRemembered(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	client, r := f.client(), Remote{URL: f.URL + "/r"}
	f.mustAsk(t, client, r)
	f.took()
	f.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, advertisement, "0000")
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	for range 2 {
		if err := f.ask(client, r); !errors.Is(err, ErrOtherProtocol) {
			t.Errorf("got %v", err)
		}
	}
	f.want(t, 1, "POST", "GET")
	p, err := client.pool(r)
	if err != nil {
		t.Fatal(err)
	}
	p.remember(r.URL, server{at: time.Now().Add(-otherFor - time.Second)}, nil)
	f.set(answer)
	f.mustAsk(t, client, r)
}

func TestGivenUp(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	client, r := f.client(), Remote{URL: f.URL + "/r"}
	gaveUp := errors.New("gave up")
	for range 2 { // before the server is known, and after it
		ctx, cancel := context.WithCancelCause(t.Context())
		f.set(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // the server notices the client's end only then
			cancel(gaveUp)
			<-r.Context().Done()
		})
		if _, err := client.LsRefs(ctx, r, nil); !errors.Is(err, gaveUp) {
			t.Errorf("got %v", err)
		}
		f.set(answer)
		f.mustAsk(t, client, r)
	}
}

// TestPin connects to the pinned address of a name that does not exist.
func TestPin(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	client := f.client()
	at := netip.MustParseAddrPort(f.Listener.Addr().String())
	url := fmt.Sprintf("http://pinned.invalid:%d/r", at.Port())
	f.mustAsk(t, client, Remote{URL: url, Pin: []netip.Addr{at.Addr()}})
	// The host of a redirect may be written in other letters.
	f.mustAsk(t, client, Remote{URL: strings.Replace(url, "pinned", "PINNED", 1), Pin: []netip.Addr{at.Addr()}})
	f.took()
	if p, err := newPool(Config{}, Remote{URL: url, Pin: []netip.Addr{at.Addr()}}); err != nil {
		t.Error(err)
	} else if c, err := p.transport.DialContext(t.Context(), "tcp", at.String()); err == nil {
		c.Close()
		t.Error("a pinned pool has connected to another place")
	}
	// The open connection does not serve a question without the pin.
	if err := f.ask(client, Remote{URL: url}); err == nil {
		t.Error("a name that does not exist was found")
	}
}

func TestPoolsAreBounded(t *testing.T) {
	t.Parallel()
	c := New(Config{})
	for i := range maxPools + 10 {
		if _, err := c.pool(Remote{URL: fmt.Sprintf("http://h%d/r", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.pools) != maxPools {
		t.Errorf("%d pools, want %d", len(c.pools), maxPools)
	}
	if key, _ := keyOf(Remote{URL: fmt.Sprintf("http://h%d/r", maxPools+9)}); c.pools[key] == nil {
		t.Error("the last pool was dropped, want the one that was used least lately")
	}
	for i := range maxServers + 10 {
		p, err := c.pool(Remote{URL: "http://h/r"})
		if err != nil {
			t.Fatal(err)
		}
		p.remember(fmt.Sprint(i), server{}, nil)
		if len(p.servers) > maxServers {
			t.Fatalf("%d repositories", len(p.servers))
		}
	}
}
