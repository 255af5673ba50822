package githttp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/intake"
)

// Config configures New.
type Config struct {
	// TLS has the trusted certificates; nil means the system's.
	TLS *tls.Config
	// Proxy returns the proxy for a request, or nil.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxAnswer bounds the size of an answer to a question, in bytes; zero means
	// gitref.MaxAnswer.
	MaxAnswer int
	// Go runs work in the background. Its context ends with the process. If Go is nil,
	// connections that a server closes are not opened again.
	Go func(f func(ctx context.Context))

	dialTimeout, reopenTimeout time.Duration // zero: the constants of these names
}

// Client asks remotes. It is safe for concurrent use.
type Client struct {
	config Config

	mu    sync.Mutex // guards pools; never held over I/O
	pools map[poolKey]*pool
}

// New returns a Client.
func New(c Config) *Client {
	c.MaxAnswer = cmp.Or(c.MaxAnswer, gitref.MaxAnswer)
	return &Client{config: c, pools: make(map[poolKey]*pool)}
}

// Remote is a repository at an http or https URL, with a credential for it. Formatting it
// shows the URL alone.
type Remote struct {
	URL string
	// The credential is a user with or without a password, or a bearer token, or nothing.
	User, Password, Bearer string
	// Owner, if not empty, says instead of the credential itself which questions may share
	// connections: those with one holder, whose secret changes.
	Owner string
	// Pin, if not empty, has the only addresses to connect to for the URL's host.
	Pin []netip.Addr
}

// String hides the credential.
func (r Remote) String() string { return r.URL }

// GoString hides the credential.
func (r Remote) GoString() string { return r.URL }

// ErrOtherProtocol means that a server does not speak protocol 2, or not as git's smart
// HTTP servers do.
var ErrOtherProtocol = errors.New("the server does not speak protocol 2 over smart HTTP")

// StatusError is an HTTP status other than 200.
type StatusError struct {
	Code     int
	Location *url.URL // of a redirect, or nil
	Refused  bool     // the server refuses the credential, which was sent

	challenges []string // how the server wants to be answered
}

// StatusCode returns the status.
func (e *StatusError) StatusCode() int { return e.Code }

// Error has the status in our words, because the server's may repeat the credential.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
}

// AnswerError is a complete answer that is not git's protocol, is too large, or is an error
// message of the server, a gitref.RemoteError.
type AnswerError struct{ Err error }

func (e *AnswerError) Error() string { return e.Err.Error() }

func (e *AnswerError) Unwrap() error { return e.Err }

// LsRefs asks for HEAD and for the refs with the given full names; a name that ends with a
// slash stands for all refs below it. If an open connection turns out to be closed, or the
// server has changed since its first answer, it asks again from the start. The error is
// ErrOtherProtocol, a *StatusError, an *AnswerError, a *PageError, the cause of ctx, or one of net/http.
func (c *Client) LsRefs(ctx context.Context, r Remote, names []string) (gitref.Answer, error) {
	p, err := c.pool(r)
	if err != nil {
		return gitref.Answer{}, err
	}
	server, known := p.known(r.URL)
	if known && server.protocol2 {
		answer, err := p.ask(ctx, r, server, names)
		if err == nil {
			return answer, nil
		}
		p.closeIdle()
		if ctx.Err() != nil || isFinal(err, server) {
			return gitref.Answer{}, cmp.Or(context.Cause(ctx), err)
		}
		known = false
	}
	if !known {
		if server, err = p.discover(ctx, r); ctx.Err() != nil {
			return gitref.Answer{}, context.Cause(ctx)
		}
		p.remember(r.URL, server, err)
	}
	if err == nil && !server.protocol2 {
		err = ErrOtherProtocol
	}
	if err != nil {
		return gitref.Answer{}, err
	}
	answer, err := p.ask(ctx, r, server, names)
	if err != nil {
		return gitref.Answer{}, cmp.Or(context.Cause(ctx), err)
	}
	return answer, nil
}

// Fetch asks for a pack with all objects that are reachable from wants and not from haves,
// and calls take with it. The pack may have deltas against objects that are reachable from
// haves; its size is not bounded. Fetch reads the response through listen. The server must
// have answered LsRefs. The error is ErrOtherProtocol, a *StatusError, an *AnswerError, that
// of take, the cause of ctx, or one of net/http; after an error take may have been called.
func (c *Client) Fetch(ctx context.Context, r Remote, f gitref.Fetch, listen func(io.Reader) io.Reader, take func(pack io.Reader, shallow []string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.pool(r)
	if err != nil {
		return err
	}
	server, _ := p.known(r.URL)
	if !server.protocol2 {
		return ErrOtherProtocol
	}
	f.Format = server.capabilities.Format
	response, err := p.send(ctx, r, server.authenticate, f.Request())
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer response.Body.Close()
	if err := checkResult(response); err != nil {
		return err
	}
	body := listen(response.Body)
	pack, shallow, err := f.ReadPack(body)
	if err != nil {
		return cmp.Or(context.Cause(ctx), error(&AnswerError{err}))
	}
	if err := take(pack, shallow); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	// The connection is used again if the response ends now.
	defer time.AfterFunc(maxFarewell, cancel).Stop()
	_, _ = io.CopyN(io.Discard, body, maxRest)
	return nil
}

// isFinal reports whether the server would say the same if it was asked from the start: it
// refuses the credential, or wants fewer questions.
func isFinal(err error, asked server) bool {
	s, ok := errors.AsType[*StatusError](err)
	return ok && (asked.authenticate && s.Code == http.StatusUnauthorized || s.Code == http.StatusTooManyRequests || s.Code >= 500)
}

// Probe sends git's first request over a new connection, and again with the credential if
// the server asks for one. The error is nil if the answer has the status 200 and may be git's.
func (c *Client) Probe(ctx context.Context, r Remote) error {
	p, err := newPool(Config{TLS: c.config.TLS, Proxy: c.config.Proxy}, r)
	if err != nil {
		return err
	}
	defer p.closeIdle()
	response, _, err := p.first(ctx, r)
	if err == nil && !isOf(response, advertisement) {
		err = checkPage(response)
	}
	if response != nil {
		err = cmp.Or(err, drain(response))
	}
	return err
}

// server is what the first answer of a server said about a repository.
type server struct {
	protocol2    bool
	capabilities gitref.Capabilities
	authenticate bool // it asked for a credential
	at           time.Time
}

// InfoRefs is the path of git's first request, below a repository's URL.
const InfoRefs = "/info/refs"

const (
	uploadPack    = "git-upload-pack"
	typePrefix    = "application/x-" + uploadPack
	advertisement = typePrefix + "-advertisement"
	result        = typePrefix + "-result"
	// userAgent begins like git's, because some servers serve repositories to git alone.
	userAgent = "git/2.47 (helmdeck/repos)"
)

// first sends git's first request, and again with the credential if the server asks for
// one; authenticated says so.
func (p *pool) first(ctx context.Context, r Remote) (response *http.Response, authenticated bool, err error) {
	response, err = p.send(ctx, r, false, nil)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusUnauthorized && r.answers(status.challenges) {
		response, err = p.send(ctx, r, true, nil)
		return response, true, err
	}
	return response, false, err
}

// answers reports whether the credential is one that a server asks for. A bearer token is sent to
// every server that refuses, a password only to one that asks for Basic: with other schemes, such
// as NTLM, it would be sent in vain.
func (r Remote) answers(challenges []string) bool {
	return r.Bearer != "" || (r.Password != "" || r.User != "") && slices.ContainsFunc(challenges, func(c string) bool {
		scheme, _, _ := strings.Cut(c, " ")
		return strings.EqualFold(scheme, "Basic")
	})
}

// discover asks what the server can.
func (p *pool) discover(ctx context.Context, r Remote) (s server, err error) {
	response, authenticated, err := p.first(ctx, r)
	s = server{at: time.Now(), authenticate: authenticated}
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	if !isOf(response, advertisement) {
		return s, checkPage(response)
	}
	err = p.read(response, func(d *gitref.Decoder) (err error) {
		s.capabilities, s.protocol2, err = d.Advertisement()
		return err
	})
	return s, err
}

// ask sends the question.
func (p *pool) ask(ctx context.Context, r Remote, s server, names []string) (answer gitref.Answer, err error) {
	response, err := p.send(ctx, r, s.authenticate, gitref.Request(s.capabilities, names))
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if err := checkResult(response); err != nil {
		return answer, err
	}
	err = p.read(response, func(d *gitref.Decoder) (err error) {
		answer, err = d.Refs(s.capabilities.Format, names)
		return err
	})
	return answer, err
}

// isOf reports whether a response has a content type, whatever its parameters, and no
// coding, because none was asked for.
func isOf(response *http.Response, kind string) bool {
	got, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return got == kind && response.Header.Get("Content-Encoding") == ""
}

// send sends a question, or without one git's first request, with or without the
// credential. The error is nil if the answer has the status 200.
func (p *pool) send(ctx context.Context, r Remote, authenticate bool, question []byte) (*http.Response, error) {
	address, method, body := strings.TrimSuffix(r.URL, "/")+InfoRefs+"?service="+uploadPack, http.MethodGet, io.Reader(nil)
	if question != nil {
		address, method, body = strings.TrimSuffix(r.URL, "/")+"/"+uploadPack, http.MethodPost, strings.NewReader(string(question))
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Git-Protocol", "version=2")
	request.Header.Set("Accept-Encoding", "identity")
	if question != nil {
		request.Header.Set("Content-Type", typePrefix+"-request")
		request.Header.Set("Accept", result)
		// net/http may send a question again on another connection. The header itself is
		// not sent, because it has no value.
		request.Header["Idempotency-Key"] = nil
	}
	switch {
	case !authenticate:
	case r.Bearer != "":
		request.Header.Set("Authorization", "Bearer "+r.Bearer)
	case r.Password != "" || r.User != "":
		request.SetBasicAuth(r.User, r.Password)
	}
	// A RoundTripper follows no redirect and has no cookies.
	response, err := intake.Answer(p.transport, request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNonAuthoritativeInfo { // through a proxy
		return response, nil
	}
	refused := &StatusError{Code: response.StatusCode, challenges: response.Header.Values("WWW-Authenticate")}
	if refused.Code == http.StatusSwitchingProtocols {
		// Its body is the connection, which does not end with the context.
		return nil, errors.Join(refused, response.Body.Close())
	}
	refused.Refused = authenticate && (refused.Code == http.StatusUnauthorized || refused.Code == http.StatusForbidden)
	if refused.Code/100 == 3 {
		refused.Location, _ = response.Location()
	}
	return nil, errors.Join(refused, drain(response))
}

// maxFarewell bounds how long the end of a response may take after a pack.
const maxFarewell = time.Second

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
func (p *pool) read(response *http.Response, decode func(*gitref.Decoder) error) error {
	b := &body{Reader: response.Body}
	err := decode(gitref.NewDecoder(b, p.config.MaxAnswer))
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
	server     guard.HostPort
	credential [sha256.Size]byte
	pin        string
}

func keyOf(r Remote) (poolKey, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return poolKey{}, err
	}
	secret := []string{r.User, r.Password, r.Bearer}
	if r.Owner != "" {
		secret = []string{r.Owner} // of another length, so that no secret is taken for an owner
	}
	// Name servers may list the same addresses in another order.
	pin := slices.SortedFunc(slices.Values(r.Pin), netip.Addr.Compare)
	return poolKey{u.Scheme, guard.HostPortOf(u), sha256.Sum256(fmt.Appendf(nil, "%q", secret)), fmt.Sprint(pin)}, nil
}
