package remotes

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// proxy is a forward proxy that knows one host more than the name servers: git.example is at the address.
type proxy struct {
	*httptest.Server
	requests, tunnels atomic.Int32
}

func startProxy(t *testing.T, address string) *proxy {
	t.Helper()
	p := &proxy{}
	place := func(host string) string {
		if name, _, _ := strings.Cut(host, ":"); name == "git.example" {
			return address
		}
		return host
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			p.tunnels.Add(1)
			tunnel(w, place(r.Host))
			return
		}
		p.requests.Add(1)
		r.URL.Host, r.RequestURI = place(r.URL.Host), ""
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for key, values := range resp.Header {
			w.Header()[key] = values
		}
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	}))
	t.Cleanup(p.Close)
	return p
}

func tunnel(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(there, here)
		there.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(here, there)
}

func TestProxies(t *testing.T) {
	t.Parallel()
	s := serve(t)
	via := startProxy(t, strings.TrimPrefix(hostOf(s.url), "http://"))
	p := start(t, "HTTP_PROXY="+via.URL, "NO_PROXY=127.0.0.1")
	if err := p.works("v", s.head, "repo=http://git.example/"+app); err != nil {
		t.Error(err)
	}
	if via.requests.Load() == 0 {
		t.Error("no request came by the proxy")
	}
	via.requests.Store(0)
	if err := p.works("direct", s.head, "repo="+s.url); err != nil {
		t.Error(err)
	}
	if n := via.requests.Load(); n > 0 {
		t.Errorf("%d requests came by the proxy in spite of NO_PROXY", n)
	}

	// Over TLS the proxy makes a tunnel, and sees nothing.
	secure := serveTLS(t)
	p = start(t, "HTTPS_PROXY="+via.URL, "CA_BUNDLE="+string(secure.CA()))
	if err := p.works("v", secure.head, "repo="+secure.url); err != nil {
		t.Error(err)
	}
	if via.tunnels.Load() == 0 || via.requests.Load() > 0 {
		t.Errorf("%d tunnels, %d requests; want tunnels alone", via.tunnels.Load(), via.requests.Load())
	}

	// One that is not there, and one that asks for a password.
	via.Close()
	p = start(t, "HTTP_PROXY="+via.URL)
	err := p.create("v", "repo=http://git.example/"+app)
	if err := has(err, "connection refused"); err != nil {
		t.Error(err)
	}
	told("proxy: refused", "create: "+err.Error())
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		http.Error(w, "who are you", http.StatusProxyAuthRequired)
	}))
	t.Cleanup(closed.Close)
	p = start(t, "HTTP_PROXY="+closed.URL)
	err = p.works("v", "", "repo=http://git.example/"+app)
	if err := has(err, "407"); err != nil {
		t.Error(err)
	}
	told("proxy: asks for a password", "mount: "+err.Error())
}
