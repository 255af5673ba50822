// Package distance puts a TCP server on loopback at a distance from its clients, for the benchmarks.
//
// A Link is a proxy in front of the server. It delivers every byte, and the end of every stream, half
// a round trip after it was sent, in order. What the client of a new connection sends before the
// server's first answer is delivered another round trip later, because that is what TCP's handshake
// takes. This is exact if the client speaks first, as with TLS and HTTP. A Link does not limit the
// bandwidth, and loses nothing.
package distance

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight is how many chunks may be under way in one direction of a connection: enough for 4 GB/s in
// reads of 16 KB, the size of a TLS record, and half a round trip of 15 ms.
const inFlight = 4096

// Link is a proxy in front of one server. Its methods may be called concurrently.
type Link struct {
	server    string
	listener  net.Listener
	roundTrip atomic.Int64 // nanoseconds
	accepted  atomic.Int64
	running   sync.WaitGroup // the accepting goroutine and the connections

	mu     sync.Mutex
	closed bool
	pairs  map[*pair]bool // the open connections
}

// conn is a connection whose two directions end separately.
type conn interface {
	net.Conn
	CloseWrite() error
}

// pair is a client's connection and the one to the server that belongs to it.
type pair struct{ client, server conn }

// New returns a Link to a server's TCP address, without distance. It listens on a free port of
// 127.0.0.1 until Close.
func New(server string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{server: server, listener: listener, pairs: map[*pair]bool{}}
	l.running.Go(l.accept)
	return l, nil
}

// Addr returns the host and port for clients.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// SetRoundTrip sets the round trip for what is sent from now on, also on open connections.
func (l *Link) SetRoundTrip(d time.Duration) { l.roundTrip.Store(int64(d)) }

func (l *Link) delay() time.Duration { return time.Duration(l.roundTrip.Load() / 2) }

// Connections returns how many connections clients have made since New.
func (l *Link) Connections() int { return int(l.accepted.Load()) }

// Open returns how many connections have not ended. A connection ends when both of its directions
// have: a client whose server hung up must close it too.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pairs)
}

// HangUp closes all connections as if the server did. It does not wait until their clients know.
func (l *Link) HangUp() { l.each(func(p *pair) { p.server.Close() }) }

// Close closes all connections at once and returns when they have ended.
func (l *Link) Close() error {
	err := l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.each(func(p *pair) { p.server.Close(); p.client.Close() })
	l.running.Wait()
	return err
}

// each calls do for each open connection.
func (l *Link) each(do func(p *pair)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		do(p)
	}
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.accepted.Add(1)
		l.running.Go(func() {
			l.connect(client.(conn), func() (conn, error) {
				server, err := net.Dial("tcp", l.server)
				if err != nil {
					return nil, err
				}
				return server.(conn), nil
			})
		})
	}
}

// connect connects a client, and returns when both directions of the connection have ended.
func (l *Link) connect(client conn, dial func() (conn, error)) {
	defer client.Close()
	server, err := dial()
	if err != nil {
		return
	}
	defer server.Close()
	p := &pair{client, server}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.pairs[p] = true
	l.mu.Unlock()
	var both sync.WaitGroup
	var answered atomic.Bool // the client has got the server's first bytes
	both.Go(func() {
		// The client's kernel has connected at once. All that the client does until it gets an
		// answer is a round trip too early.
		carry(server, client, func() time.Duration {
			if answered.Load() {
				return l.delay()
			}
			return 3 * l.delay()
		}, func() {})
	})
	both.Go(func() { carry(client, server, l.delay, func() { answered.Store(true) }) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, p)
}

// chunk is what one read returned, and the time at which to deliver it.
type chunk struct {
	data []byte // empty at the end of the stream
	due  time.Time
}

// carry carries one direction of a connection until its end, which it passes on. What it reads is
// delivered after the delay of that time; arriving is called before.
func carry(to, from conn, delay func() time.Duration, arriving func()) {
	chunks := make(chan chunk, inFlight)
	go func() {
		defer close(chunks)
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			due := time.Now().Add(delay())
			if n > 0 {
				chunks <- chunk{bytes.Clone(buffer[:n]), due}
			}
			if err != nil {
				chunks <- chunk{nil, due}
				return
			}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		arriving()
		if len(c.data) == 0 {
			to.CloseWrite()
			continue
		}
		to.Write(c.data) // if it fails, the rest is dropped until the other side ends too
	}
}
