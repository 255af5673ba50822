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

// proxy is a forward proxy that leads the host git.example, which no name server knows, to an
// address.
type proxy struct {
	*httptest.Server
	requests, tunnels atomic.Int32
}

func startProxy(t *testing.T, address string) *proxy {
	t.Helper()
	p := &proxy{}
	resolve := func(host string) string {
		if name, _, _ := strings.Cut(host, ":"); name == "git.example" {
			return address
		}
		return host
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			p.tunnels.Add(1)
			tunnel(w, resolve(r.Host))
			return
		}
		p.requests.Add(1)
		r.URL.Host, r.RequestURI = resolve(r.URL.Host), ""
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

// tunnel answers a CONNECT request: it copies bytes between the client and an address.
func tunnel(w http.ResponseWriter, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(server, client)
		server.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(client, server)
}

func TestProxies(t *testing.T) {
	t.Parallel()
	s := serve(t)
	via := startProxy(t, strings.TrimPrefix(hostOf(s.url), "http://"))
	p := start(t, "HTTP_PROXY="+via.URL, "NO_PROXY=127.0.0.1")
	if err := p.createAndCheck("v", s.head, "repo=http://git.example/"+app); err != nil {
		t.Error(err)
	}
	if via.requests.Load() == 0 {
		t.Error("the proxy got no request")
	}
	via.requests.Store(0)
	if err := p.createAndCheck("direct", s.head, "repo="+s.url); err != nil {
		t.Error(err)
	}
	if n := via.requests.Load(); n > 0 {
		t.Errorf("the proxy got %d requests, want none because of NO_PROXY", n)
	}

	// For TLS the proxy makes a tunnel, and sees no request.
	secure := serveTLS(t)
	p = start(t, "HTTPS_PROXY="+via.URL, "CA_BUNDLE="+string(secure.CA()))
	if err := p.createAndCheck("v", secure.head, "repo="+secure.url); err != nil {
		t.Error(err)
	}
	if via.tunnels.Load() == 0 || via.requests.Load() > 0 {
		t.Errorf("%d tunnels, %d requests; want only tunnels", via.tunnels.Load(), via.requests.Load())
	}

	// One proxy does not exist, and another one asks for a password.
	via.Close()
	p = start(t, "HTTP_PROXY="+via.URL)
	err := p.create("v", "repo=http://git.example/"+app)
	if err := checkError(err, "connection refused"); err != nil {
		t.Error(err)
	}
	addLine("proxy: refused", "create: "+err.Error())
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		http.Error(w, "who are you", http.StatusProxyAuthRequired)
	}))
	t.Cleanup(private.Close)
	p = start(t, "HTTP_PROXY="+private.URL)
	err = p.createAndCheck("v", "", "repo=http://git.example/"+app)
	if err := checkError(err, "407"); err != nil {
		t.Error(err)
	}
	addLine("proxy: asks for a password", "mount: "+err.Error())
}
