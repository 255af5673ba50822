package githttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fake is a server with one ref. It notes its requests and connections.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // "GET" or "POST", and the authorization
	conns    int
	resumed  int // TLS sessions
	handle   http.HandlerFunc
}

var (
	commit       = strings.Repeat("a", 40)
	capabilities = "000eversion 2\n" + "000cls-refs\n" + "0000"
	refs         = "0032" + commit + " HEAD\n" + "003a" + commit + " refs/heads/x\n" + "0000"
)

// serve starts a fake after set has configured it.
func serve(t *testing.T, set func(*httptest.Server)) *fake {
	f := &fake{handle: answer}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.mu.Lock()
			f.conns++
			f.mu.Unlock()
		}
	}
	if set == nil {
		f.Start()
	} else {
		set(f.Server)
		f.StartTLS()
	}
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, strings.TrimSpace(r.Method+" "+r.Header.Get("Authorization")))
	if r.TLS != nil && r.TLS.DidResume {
		f.resumed++
	}
	handle := f.handle
	f.mu.Unlock()
	handle(w, r)
}

func (f *fake) set(h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handle = h
}

// took returns the requests and the number of new connections since the last call.
func (f *fake) took() (requests []string, conns int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests, conns = f.requests, f.conns
	f.requests, f.conns = nil, 0
	return requests, conns
}

func (f *fake) want(t *testing.T, conns int, requests ...string) {
	t.Helper()
	if got, n := f.took(); !slices.Equal(got, requests) || n != conns {
		t.Errorf("%q on %d new connections, want %q on %d", got, n, requests, conns)
	}
}

// client returns a client that trusts the server.
func (f *fake) client() *Client {
	pool := x509.NewCertPool()
	if f.Certificate() != nil {
		pool.AddCert(f.Certificate())
	}
	return New(Config{TLS: &tls.Config{RootCAs: pool}})
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		reply(w, advertisement+"; charset=utf-8", capabilities)
		return
	}
	reply(w, typePrefix+"-result", refs)
}

func reply(w http.ResponseWriter, kind, text string) {
	w.Header().Set("Content-Type", kind)
	io.WriteString(w, text)
}

func (f *fake) ask(c *Client, r Remote) error {
	got, err := c.LsRefs(context.Background(), r, []string{"refs/heads/x"})
	if err == nil && got.IDs["refs/heads/x"] != commit {
		err = fmt.Errorf("answer %+v", got)
	}
	return err
}

func (f *fake) mustAsk(t *testing.T, c *Client, r Remote) {
	t.Helper()
	if err := f.ask(c, r); err != nil {
		t.Error(err)
	}
}
