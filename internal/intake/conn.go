package intake

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"syscall"
	"time"
)

const (
	// perConn is the allowance of a connection, in bytes: for handshakes, which have certificates.
	perConn = 1 << 20
	// perAnswer is that of each request to a remote: for headers, and for what net/http reads of a body before anybody
	// asks for it, which is up to 4 MiB with HTTP/2.
	perAnswer = 5 << 20
	// perRequest is that of each request of a client: for its header.
	perRequest = 64 << 10
	// bodyWait is how long a client may take for the body of a request. All clients have it whole before they connect.
	bodyWait = 30 * time.Second
	// dropped bounds what is read of a body that its handler did not read, in bytes, and dropWait for how long.
	dropped  = 64 << 20
	dropWait = 5 * time.Second
)

// Conn is a connection whose reading ends with ErrExcess. What comes of it are the bodies of requests or answers.
type Conn struct {
	net.Conn
	*Meter
}

// NewConn returns a connection for Answer or Handler.
func NewConn(c net.Conn) *Conn { return &Conn{c, NewMeter(perConn)} }

// Read implements net.Conn.
func (c *Conn) Read(data []byte) (int, error) { return c.read(c.Conn, data) }

// NetConn returns the connection itself.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// SyscallConn implements syscall.Conn, if the connection itself does.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, syscall.EOPNOTSUPP
}

// Dial is a function such as net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Bounded returns a Dial whose connections are for Answer.
func (d Dial) Bounded() Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return NewConn(c), nil
	}
}

// Answer sends a request through a transport whose connections are made by Bounded. Without a request the other side
// can't send much, and with one not much more than the body.
func Answer(t http.RoundTripper, r *http.Request) (*http.Response, error) {
	var of *Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if of = connOf(info.Conn); of != nil {
			of.Allow(perAnswer)
		}
	}}
	response, err := t.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	if of != nil && response.StatusCode != http.StatusSwitchingProtocols { // that body is the connection
		response.Body = &body{Reader: of.Out(response.Body), Closer: response.Body}
	}
	return response, nil
}

// body is a body whose bytes are counted.
type body struct {
	io.Reader
	io.Closer
}

// connOf returns the Conn below a connection, or nil.
func connOf(c net.Conn) *Conn {
	for c != nil {
		switch is := c.(type) {
		case *Conn:
			return is
		case *tls.Conn:
			c = is.NetConn()
		default:
			return nil
		}
	}
	return nil
}

// Listener is a listener whose connections are for Handler.
type Listener struct{ net.Listener }

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

type connKey struct{}

// WithConn is for http.Server.ConnContext.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// Handler returns a handler for a server with a Listener and WithConn. A connection is closed when a client sends much
// that belongs to no request, such as frames of HTTP/2, and a body that does not come in half a minute ends. With HTTP/1
// the rest of a body is read before the answer: a client that sends all before it reads would see a closed connection in
// place of the answer.
func Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, _ := r.Context().Value(connKey{}).(*Conn); c != nil {
			c.Allow(perRequest)
			if r.Body != nil && r.Body != http.NoBody {
				s := &slow{body: body{c.Out(r.Body), r.Body}, deadline: http.NewResponseController(w).SetReadDeadline}
				if r.Body = s; r.ProtoMajor == 1 {
					w = &after{ResponseWriter: w, body: s}
				}
			}
		}
		h.ServeHTTP(w, r)
	})
}

// slow is the body of a request. It ends with an error if it takes longer than bodyWait from its first read.
type slow struct {
	body
	deadline func(time.Time) error
	begun    bool
}

func (s *slow) Read(data []byte) (int, error) {
	if !s.begun {
		s.begun = true
		_ = s.deadline(time.Now().Add(bodyWait)) // a failure says that the connection is gone
	}
	n, err := s.body.Read(data)
	if err != nil { // from now on net/http reads on to notice that the client hangs up
		_ = s.deadline(time.Time{})
	}
	return n, err
}

// after is a ResponseWriter that drops the rest of a body before the answer begins.
type after struct {
	http.ResponseWriter
	body  *slow
	begun bool
}

func (a *after) begin() {
	if a.begun {
		return
	}
	a.begun, a.body.begun = true, true
	_ = a.body.deadline(time.Now().Add(dropWait)) // a failure says that the connection is gone
	_, _ = io.CopyN(io.Discard, a.body, dropped)  // the answer does not depend on it
}

func (a *after) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

func (a *after) Write(data []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (a *after) Unwrap() http.ResponseWriter { return a.ResponseWriter }
