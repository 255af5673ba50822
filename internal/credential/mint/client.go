package mint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/intake"
)

const (
	// maxTime bounds a request with its answer: half of what a Mount may wait for the remote,
	// so that an answer can still be used.
	maxTime = 10 * time.Second
	// maxBody bounds an answer, in bytes. GitHub describes the repository and its owner in
	// some 10 KB.
	maxBody = 256 << 10
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// keepOpen is how long a connection stays open, for an app's second request.
	keepOpen = 30 * time.Second
)

// Config configures New.
type Config struct {
	// TLS has the trusted certificates; nil means the system's.
	TLS *tls.Config
	// Proxy returns the proxy for a request, or nil.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout bounds a request. Zero, or a longer one, means 10 seconds.
	Timeout time.Duration
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// New returns the providers of all kinds that renew.
func New(c Config) map[credential.Kind]credential.Provider {
	t := &http.Transport{
		Proxy: c.Proxy, ForceAttemptHTTP2: true, IdleConnTimeout: keepOpen, MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost: 1, DisableCompression: true, DialContext: intake.Dial(new(net.Dialer).DialContext).Bounded(),
	}
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	if c.Timeout <= 0 || c.Timeout > maxTime {
		c.Timeout = maxTime
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	shared := &client{transport: t, timeout: c.Timeout, now: c.Now}
	return map[credential.Kind]credential.Provider{
		credential.GitHubApp: github{shared}, credential.HTTPProvider: service{shared},
	}
}

// client sends requests to providers.
type client struct {
	transport *http.Transport // follows no redirect, and has no cookies
	timeout   time.Duration
	now       func() time.Time
}

// answer is a whole answer.
type answer struct {
	*http.Response
	body []byte
}

// send sends a request with a bearer token, and body as JSON unless it is nil.
func (c *client) send(ctx context.Context, method, url, bearer string, body any) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, giterror.SilentError(c.timeout))
	defer cancel()
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return answer{}, wrongAnswer("the URL of the provider can't be used")
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "helmdeck/repos")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := intake.Answer(c.transport, request)
	if err != nil {
		return answer{}, cmp.Or(context.Cause(ctx), err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return answer{Response: response}, nil // its body is the connection
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return answer{}, cmp.Or(context.Cause(ctx), err)
	}
	return answer{response, data}, nil
}

// errAnswer says what is wrong with an answer.
type errAnswer string

func (e errAnswer) Error() string { return string(e) }

func wrongAnswer(format string, args ...any) error { return errAnswer(fmt.Sprintf(format, args...)) }

// decode decodes an answer as JSON. The error is an errAnswer.
func (a answer) decode(into any, strict bool) error {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	switch {
	case len(a.body) > maxBody:
		return wrongAnswer("its answer is longer than %d bytes", maxBody)
	case kind != "application/json" || a.Header.Get("Content-Encoding") != "":
		return wrongAnswer("its answer does not have the type application/json")
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	if strict {
		d.DisallowUnknownFields()
	}
	// The cause may repeat a part of the answer.
	if d.Decode(into) != nil {
		return wrongAnswer("its answer is not the JSON object that it should be")
	}
	if _, err := d.Token(); err != io.EOF {
		return wrongAnswer("its answer has more than one JSON object")
	}
	return nil
}

// failure returns the error for a question whose request failed.
func failure(q credential.Question, err error) error {
	kind := giterror.Network(err)
	if kind == giterror.KindOther {
		kind = giterror.KindServer // a proxy refuses, or it is not HTTP: another try may help
	}
	e := newError(q, kind, "")
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	if giterror.Network(err) == giterror.KindOther && !isOfConnection(err) {
		e.Detail = "the answer is not HTTP, or a proxy refuses the connection"
	}
	if wrong, ok := errors.AsType[errAnswer](err); ok {
		e.Kind, e.Detail, e.Remedy = giterror.KindCredential, wrong.Error(), "check the URL of the provider, and what it answers"
	}
	e.Err = err
	return e
}

// isOfConnection reports whether an error of net/http is about the connection. The text of another
// one may repeat a part of the answer.
func isOfConnection(err error) bool {
	_, isOp := errors.AsType[*net.OpError](err)
	_, isTLS := errors.AsType[tls.RecordHeaderError](err)
	return isOp || isTLS || errors.Is(err, http.ErrSchemeMismatch)
}

// refusal returns the error for a question that was answered with another status than it
// should be. advice is for the statuses that say no.
func refusal(q credential.Question, a answer, advice string) error {
	e := newError(q, giterror.KindCredential, "the provider answered "+statusOf(a))
	switch {
	case a.StatusCode >= 500 || a.StatusCode == http.StatusTooManyRequests:
		e.Kind, e.Remedy = giterror.KindServer, "the provider is in trouble; try again"
	case a.StatusCode/100 == 3:
		e.Remedy = "a redirect is not followed: store the credential again with the URL where the provider is (docker repos credentials put --url)"
	default:
		e.Remedy = advice
	}
	return e
}

// statusOf returns the status of an answer in our words, because the server chooses its own.
func statusOf(a answer) string {
	return fmt.Sprintf("%d %s", a.StatusCode, http.StatusText(a.StatusCode))
}

func newError(q credential.Question, kind giterror.Kind, detail string) *giterror.Error {
	e := &giterror.Error{
		Op: fmt.Sprintf("get a secret of the credential %q for %s from", q.Name, q.Repository), URL: q.Provider, Kind: kind, Detail: detail,
	}
	switch kind {
	case giterror.KindTimeout:
		e.Remedy = "the provider did not answer in time; try again"
	case giterror.KindServer:
		e.Remedy = "the provider is in trouble; try again"
	}
	return e
}
