package githttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/guard"
)

const (
	// keepOpen is how long an idle connection stays open after a question, if the server
	// lets it.
	keepOpen = 5 * time.Minute
	// maxIdle bounds the idle connections of a pool, maxPools the pools.
	maxIdle  = 4
	maxPools = 256
	// maxServers bounds the repositories that a pool remembers.
	maxServers = 1024
	// otherFor is how long a server without protocol 2 is not asked whether it has it now.
	otherFor = 10 * time.Minute
	// maxReopened bounds how often connections are opened again without a question
	// between. Common servers close idle connections after a minute.
	maxReopened = 5
	// reopenTimeout bounds each.
	reopenTimeout = 15 * time.Second
	// idleAtLeast is how long a connection has been idle if the server closed it for
	// that reason, and not because it closes each connection after its answer.
	idleAtLeast = time.Second
	// maxHeader bounds the header of a response, in bytes.
	maxHeader = 64 << 10
	// handshakeTimeout bounds a TLS handshake.
	handshakeTimeout = 10 * time.Second
)

// Probes find out that a server, or a router between, has dropped an idle connection
// without a word. A question on such a connection fails after userTimeout.
var probes = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

const userTimeout = 5 * time.Second

// pool has the connections to one server with one credential, and knows the repositories
// there that were asked for. It is safe for concurrent use.
type pool struct {
	transport *http.Transport
	run       func(f func(ctx context.Context)) // nil if nothing is opened again
	closing   atomic.Int32                      // calls of closeIdle under way

	mu       sync.Mutex // guards what follows; never held over I/O
	servers  map[string]server
	used     time.Time
	last     Remote // the last that was asked for, without its credential
	reopened int    // since then
}

// pool returns the pool for a remote.
func (c *Client) pool(r Remote) (*pool, error) {
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[key]
	if p == nil {
		c.dropLocked()
		p = newPool(c.config, key.place, r.Pin)
		c.pools[key] = p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used, p.last, p.reopened = time.Now(), Remote{URL: r.URL, Pin: r.Pin}, 0
	return p, nil
}

// dropLocked makes room for one more pool. It drops those that were not used for a while,
// and the one that was not used for the longest time.
func (c *Client) dropLocked() {
	var oldest poolKey
	var since time.Time
	drop := func(key poolKey) {
		c.pools[key].closeIdle()
		delete(c.pools, key)
	}
	for key, p := range c.pools {
		p.mu.Lock()
		used := p.used
		p.mu.Unlock()
		if time.Since(used) > max(keepOpen, otherFor) {
			drop(key)
		} else if since.IsZero() || used.Before(since) {
			oldest, since = key, used
		}
	}
	if len(c.pools) >= maxPools {
		drop(oldest)
	}
}

func newPool(c Config, place guard.Place, pin []netip.Addr) *pool {
	p := &pool{run: c.Go, servers: make(map[string]server)}
	certificates := &tls.Config{}
	if c.TLS != nil {
		certificates = c.TLS.Clone()
	}
	certificates.ClientSessionCache = tls.NewLRUClientSessionCache(maxIdle)
	p.transport = &http.Transport{
		TLSClientConfig: certificates, TLSHandshakeTimeout: handshakeTimeout,
		Proxy: c.Proxy, DialContext: p.dial(place, pin), ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: keepOpen,
		MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
	}
	return p
}

// known returns what is known about a repository.
func (p *pool) known(url string) (server, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.servers[url]
	if ok && !s.protocol2 && time.Since(s.at) > otherFor {
		return server{}, false
	}
	return s, ok
}

// remember stores what a server's first answer said, or forgets the repository after an
// error.
func (p *pool) remember(url string, s server, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		delete(p.servers, url)
		return
	}
	if len(p.servers) >= maxServers {
		clear(p.servers)
	}
	p.servers[url] = s
}

// dial returns the dial function of the transport. It connects to the pool's server only at
// the addresses in pin, if there are any, and to other places (proxies) as usual.
func (p *pool) dial(to guard.Place, pin []netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		addrs := pin
		if host, _, err := net.SplitHostPort(address); err != nil || host != to.Host {
			addrs = nil
		}
		c, err := guard.DialPinned(ctx, network, address, addrs)
		if err != nil {
			return nil, err
		}
		if err := tune(c); err != nil {
			c.Close()
			return nil, err
		}
		return &conn{Conn: c, lost: p.lost}, nil
	}
}

// tune sets the options of a connection.
func tune(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	if err := tcp.SetKeepAliveConfig(probes); err != nil {
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var optErr error
	err = raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return optErr
}

// conn calls lost when it is closed after it was idle. The transport closes it when the
// server has. Its last write may be TLS's farewell, so the pause before that counts too.
type conn struct {
	net.Conn
	lost   func()
	closed sync.Once

	mu    sync.Mutex
	wrote time.Time
	pause time.Duration // before wrote
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	now := time.Now()
	if !c.wrote.IsZero() {
		c.pause = now.Sub(c.wrote)
	}
	c.wrote = now
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.mu.Lock()
	idle := max(c.pause, time.Since(c.wrote))
	c.mu.Unlock()
	if idle >= idleAtLeast {
		c.closed.Do(c.lost)
	}
	return c.Conn.Close()
}

// closeIdle closes the connections that no request uses, and opens none again.
func (p *pool) closeIdle() {
	p.closing.Add(1)
	defer p.closing.Add(-1)
	p.transport.CloseIdleConnections()
}

// lost opens a connection again, by git's first request, if there was a question lately. It
// sends no credential, as git sends none with that request.
func (p *pool) lost() {
	if p.closing.Load() > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || time.Since(p.used) > keepOpen || p.reopened >= maxReopened {
		return
	}
	p.reopened++
	r := p.last
	p.run(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, reopenTimeout)
		defer cancel()
		if response, err := p.send(ctx, r, false, nil); err == nil {
			_ = drain(response)
		}
	})
}
