package githttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/intake"
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
	// maxAge is how long a pool is used, so that changes of a name's addresses and of
	// certificates are noticed.
	maxAge = 30 * time.Minute
	// maxAddresses bounds how many addresses of a name are tried, dialTimeout the time for
	// all. net/http lets a dial continue when its request has ended.
	maxAddresses = 8
	dialTimeout  = 15 * time.Second
	// maxHeader bounds the header of a response, in bytes.
	maxHeader = 64 << 10
	// handshakeTimeout bounds a TLS handshake.
	handshakeTimeout = 10 * time.Second
)

// Probes find out that a server, or a router between, has dropped an idle connection
// without a word. A question on such a connection fails after userTimeout, and a probe too.
var probes = net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: userTimeout}

const (
	probeAfter  = 15 * time.Second
	userTimeout = 5 * time.Second
)

// pool has the connections to one server with one credential, and knows the repositories
// there that were asked for. It is safe for concurrent use.
type pool struct {
	transport *http.Transport
	config    Config
	made      time.Time
	closing   atomic.Int32 // calls of closeIdle under way

	mu        sync.Mutex // guards what follows; never held over I/O
	servers   map[string]server
	used      time.Time
	last      Remote // the last that was asked for, without its credential
	reopening bool
	reopened  int // since the last question
}

// pool returns the pool for a remote.
func (c *Client) pool(r Remote) (*pool, error) {
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	var dropped []*pool
	c.mu.Lock()
	p := c.pools[key]
	if p == nil || time.Since(p.made) > maxAge {
		dropped = c.dropLocked(key)
		if p, err = newPool(c.config, r); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		c.pools[key] = p
	}
	p.mu.Lock()
	p.used, p.last, p.reopened = time.Now(), Remote{URL: r.URL, Pin: r.Pin}, 0
	p.mu.Unlock()
	c.mu.Unlock()
	for _, d := range dropped {
		d.closeIdle()
	}
	return p, nil
}

// dropLocked makes room for a pool. It drops and returns the one that the key has, those
// that were not used for a while, and the one that was not used for the longest time.
func (c *Client) dropLocked(key poolKey) (dropped []*pool) {
	var oldest poolKey
	var since time.Time
	drop := func(key poolKey) {
		dropped = append(dropped, c.pools[key])
		delete(c.pools, key)
	}
	for k, p := range c.pools {
		p.mu.Lock()
		used := p.used
		p.mu.Unlock()
		if k == key || time.Since(used) > max(keepOpen, otherFor) {
			drop(k)
		} else if since.IsZero() || used.Before(since) {
			oldest, since = k, used
		}
	}
	if len(c.pools) >= maxPools {
		drop(oldest)
	}
	return dropped
}

// newPool returns a pool for a remote, without a connection.
func newPool(c Config, r Remote) (*pool, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	proxy := ""
	if c.Proxy != nil {
		via, err := c.Proxy(&http.Request{URL: u})
		if err != nil {
			return nil, err
		}
		if via != nil {
			proxy = guard.HostPortOf(via).Host
		}
	}
	p := &pool{config: c, made: time.Now(), servers: make(map[string]server)}
	certificates := &tls.Config{}
	if c.TLS != nil {
		certificates = c.TLS.Clone()
	}
	certificates.ClientSessionCache = tls.NewLRUClientSessionCache(maxIdle)
	p.transport = &http.Transport{
		TLSClientConfig: certificates, TLSHandshakeTimeout: handshakeTimeout,
		Proxy: c.Proxy, DialContext: p.dial(guard.HostPortOf(u).Host, proxy, r.Pin),
		// TCP's probes see the next hop alone, which may be a proxy.
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: probeAfter, PingTimeout: userTimeout},
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: keepOpen,
		MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
	}
	return p, nil
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

// dial returns the dial function of the transport. If pin has addresses, it connects to the
// host at these alone, and else to the proxy alone; the host of a redirect may be written
// in other letters.
func (p *pool) dial(host, proxy string, pin []netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addrs := pin[:min(len(pin), maxAddresses)]
		if to = strings.ToLower(to); to != host {
			if len(pin) > 0 && to != proxy {
				return nil, fmt.Errorf("%s: the connection may lead to %s alone", address, host)
			}
			addrs = nil
		}
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.config.dialTimeout, dialTimeout))
		defer cancel()
		c, err := guard.DialPinned(ctx, network, address, addrs)
		if err != nil {
			return nil, err
		}
		if err := tune(c); err != nil {
			c.Close()
			return nil, err
		}
		return intake.NewConn(&conn{Conn: c, lost: p.lost}), nil
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

// conn calls lost when it is closed after it was idle, usually because the server has
// closed it. Its last write may be TLS's farewell, so the pause before that counts too.
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
	idle := !c.wrote.IsZero() && max(c.pause, time.Since(c.wrote)) >= idleAtLeast
	c.mu.Unlock()
	if idle {
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
// sends no credential, as git sends none with that request. If that fails, the next
// question will tell.
func (p *pool) lost() {
	if p.closing.Load() > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.last
	if p.config.Go == nil || p.reopening || p.reopened >= maxReopened || time.Since(p.used) > keepOpen || !p.servers[r.URL].protocol2 {
		return
	}
	p.reopening = true
	p.reopened++
	p.config.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.config.reopenTimeout, reopenTimeout))
		defer cancel()
		response, err := p.send(ctx, r, false, nil)
		if err == nil {
			err = drain(response)
		}
		_, answered := errors.AsType[*StatusError](err)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reopening = false
		if err != nil && !answered {
			p.reopened = maxReopened
		}
	})
}
