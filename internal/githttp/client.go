package githttp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/guard"
)

// Config configures New.
type Config struct {
	// TLS has the trusted certificates; nil means the system's.
	TLS *tls.Config
	// Proxy returns the proxy for a request, or nil.
	Proxy func(*http.Request) (*url.URL, error)
	// Go runs work in the background. Its context ends with the process. If Go is nil,
	// connections that a server closes are not opened again.
	Go func(f func(ctx context.Context))
}

// Client asks remotes. It is safe for concurrent use.
type Client struct {
	config Config

	mu    sync.Mutex // guards pools; never held over I/O
	pools map[poolKey]*pool
}

// New returns a Client.
func New(c Config) *Client { return &Client{config: c, pools: make(map[poolKey]*pool)} }

// Remote is a repository at an http or https URL, with a credential for it. Formatting it
// shows the URL alone.
type Remote struct {
	URL string
	// The credential is a user with a password, or a bearer token, or nothing.
	User, Password, Bearer string
	// Pin, if not empty, has the only addresses to connect to for the URL's host.
	Pin []netip.Addr
}

// String hides the credential.
func (r Remote) String() string { return r.URL }

// GoString hides the credential.
func (r Remote) GoString() string { return r.URL }

func (r Remote) hasCredential() bool { return r.Password != "" || r.Bearer != "" }

// ErrOtherProtocol means that a server does not speak protocol 2, or not as git's smart
// HTTP servers do.
var ErrOtherProtocol = errors.New("the server does not speak protocol 2 over smart HTTP")

// StatusError is an HTTP status other than 200.
type StatusError struct {
	Status   string
	Code     int
	Location *url.URL // of a redirect, or nil
}

func (e *StatusError) Error() string { return "the server answered " + e.Status }

// AnswerError is a complete answer that is not git's protocol, is too large, or is an error
// message of the server, a gitref.RemoteError.
type AnswerError struct{ Err error }

func (e *AnswerError) Error() string { return e.Err.Error() }

func (e *AnswerError) Unwrap() error { return e.Err }

// LsRefs asks for HEAD and for the refs with the given full names; a name that ends with a
// slash stands for all refs below it. If an open connection turns out to be closed, or the
// server has changed since its first answer, it asks again from the start. The error is
// ErrOtherProtocol, a *StatusError, an *AnswerError, the cause of ctx, or one of net/http.
func (c *Client) LsRefs(ctx context.Context, r Remote, names []string) (gitref.Answer, error) {
	p, err := c.pool(r)
	if err != nil {
		return gitref.Answer{}, err
	}
	server, known := p.known(r.URL)
	if known && server.protocol2 {
		answer, err := p.ask(ctx, r, server, names)
		if err == nil || ctx.Err() != nil {
			return answer, cmp.Or(context.Cause(ctx), err)
		}
		p.closeIdle()
		known = false
	}
	if !known {
		server, err = p.discover(ctx, r)
		p.remember(r.URL, server, err)
	}
	if err == nil && !server.protocol2 {
		err = ErrOtherProtocol
	}
	var answer gitref.Answer
	if err == nil {
		answer, err = p.ask(ctx, r, server, names)
	}
	if err != nil {
		return gitref.Answer{}, cmp.Or(context.Cause(ctx), err)
	}
	return answer, nil
}

// Probe sends git's first request, with the credential. The error is nil if the answer has
// the status 200.
func (c *Client) Probe(ctx context.Context, r Remote) error {
	p, err := c.pool(r)
	if err != nil {
		return err
	}
	response, err := p.send(ctx, r, true, nil)
	if err == nil {
		err = drain(response)
	}
	return err
}

// server is what the first answer of a server said about a repository.
type server struct {
	protocol2    bool
	format       string // of the object IDs; may be empty
	authenticate bool   // it asked for a credential
	at           time.Time
}

const (
	infoRefs      = "/info/refs"
	uploadPack    = "git-upload-pack"
	typePrefix    = "application/x-" + uploadPack
	advertisement = typePrefix + "-advertisement"
	// userAgent begins like git's, because some servers serve repositories to git alone.
	userAgent = "git/2.47 (helmdeck/repos)"
)

// discover sends git's first request, and again with the credential if the server asks
// for one.
func (p *pool) discover(ctx context.Context, r Remote) (server, error) {
	s := server{at: time.Now()}
	response, err := p.send(ctx, r, false, nil)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusUnauthorized && r.hasCredential() {
		s.authenticate = true
		response, err = p.send(ctx, r, true, nil)
	}
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Type") != advertisement {
		return s, nil
	}
	err = read(response, func(d *gitref.Decoder) (err error) {
		s.format, s.protocol2, err = d.Advertisement()
		return err
	})
	return s, err
}

// ask sends the question.
func (p *pool) ask(ctx context.Context, r Remote, s server, names []string) (answer gitref.Answer, err error) {
	response, err := p.send(ctx, r, s.authenticate, gitref.Request(s.format, names))
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != typePrefix+"-result" {
		return answer, fmt.Errorf("%w: its answer has the type %.100q", ErrOtherProtocol, kind)
	}
	err = read(response, func(d *gitref.Decoder) (err error) {
		answer, err = d.Refs(s.format, names)
		return err
	})
	return answer, err
}

// send sends a question, or without one git's first request, with or without the
// credential. The error is nil if the answer has the status 200.
func (p *pool) send(ctx context.Context, r Remote, authenticate bool, question []byte) (*http.Response, error) {
	address, method, body := strings.TrimSuffix(r.URL, "/")+infoRefs+"?service="+uploadPack, http.MethodGet, io.Reader(nil)
	if question != nil {
		address, method, body = strings.TrimSuffix(r.URL, "/")+"/"+uploadPack, http.MethodPost, strings.NewReader(string(question))
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Git-Protocol", "version=2")
	if question != nil {
		request.Header.Set("Content-Type", typePrefix+"-request")
		request.Header.Set("Accept", typePrefix+"-result")
		// net/http may send a question again on another connection. The header itself is
		// not sent, because it has no value.
		request.Header["Idempotency-Key"] = nil
	}
	switch {
	case !authenticate:
	case r.Bearer != "":
		request.Header.Set("Authorization", "Bearer "+r.Bearer)
	case r.Password != "":
		request.SetBasicAuth(r.User, r.Password)
	}
	// A RoundTripper follows no redirect and has no cookies.
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	refused := &StatusError{Status: response.Status, Code: response.StatusCode}
	if refused.Code/100 == 3 {
		refused.Location, _ = response.Location()
	}
	return nil, errors.Join(refused, drain(response))
}

// maxRest bounds what is read of a response only to use its connection again.
const maxRest = 64 << 10

// drain reads the rest of a response and closes it, so that the connection stays open.
func drain(response *http.Response) error {
	_, _ = io.CopyN(io.Discard, response.Body, maxRest)
	return response.Body.Close()
}

// body notes the error with which a response ended early.
type body struct {
	io.Reader
	err error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// read decodes a response. The error is an *AnswerError if the response is complete.
func read(response *http.Response, decode func(*gitref.Decoder) error) error {
	b := &body{Reader: response.Body}
	err := decode(gitref.NewDecoder(b))
	if err == nil {
		_, _ = io.CopyN(io.Discard, b, maxRest)
	}
	if err == nil || b.err != nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return &AnswerError{err}
}

// poolKey identifies questions that may share a connection.
type poolKey struct {
	scheme     string
	place      guard.Place
	credential [sha256.Size]byte
	pin        string
}

func keyOf(r Remote) (poolKey, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return poolKey{}, err
	}
	return poolKey{u.Scheme, guard.PlaceOf(u), sha256.Sum256(fmt.Appendf(nil, "%q", []string{r.User, r.Password, r.Bearer})), fmt.Sprint(r.Pin)}, nil
}
