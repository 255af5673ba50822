package git

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/guard"
)

// lfsClient speaks the batch API of git-lfs (docs/api/batch.md there).
//
// It is not the git-lfs program, for that follows the server's answers to any
// address: an object's URL, and every redirect, is the server's to choose.
type lfsClient struct {
	endpoint string
	auth     *Auth
	covers   func(url string) bool // of an LFSFetch
	http     *http.Client
	limits   lfsLimits
}

// lfsLimits bound every request, whatever the server sends.
type lfsLimits struct {
	silence         time.Duration // nothing arrives for that long
	batch, transfer time.Duration // a question, a download in all
}

func (g *Git) lfsClient(f LFSFetch) lfsClient {
	direct := &http.Transport{
		DialContext: f.Rule.Dial, TLSClientConfig: g.tls.Clone(), ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: lfsDownloads,
	}
	proxied := direct.Clone()
	proxied.DialContext, proxied.Proxy = nil, g.proxy
	limits := lfsLimits{silence: min(g.stall, lfsStall), batch: lfsBatchTotal, transfer: lfsTransferTotal}
	c := lfsClient{endpoint: f.Endpoint, auth: f.Auth, covers: f.Covers, limits: limits}
	c.http = &http.Client{
		Transport:     lfsTransport{direct: direct, proxied: proxied, proxy: g.proxy, rule: f.Rule},
		CheckRedirect: c.checkRedirect,
	}
	return c
}

// lfsTransport holds every request to the rule: the connection itself, or, where
// a proxy makes that, the name.
type lfsTransport struct {
	direct, proxied *http.Transport
	proxy           func(*http.Request) (*url.URL, error)
	rule            guard.Rule
}

func (t lfsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	via, err := t.proxy(r)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return t.direct.RoundTrip(r)
	}
	if _, err := t.rule.Check(r.Context(), guard.Place{Host: strings.ToLower(r.URL.Hostname()), Port: portOf(r.URL)}); err != nil {
		return nil, err
	}
	return t.proxied.RoundTrip(r)
}

// CloseIdleConnections is called by the client's method of that name.
func (t lfsTransport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// checkRedirect lets nothing but the question itself go to another server: not
// a login, and not what the first server gave for itself. The credential goes to no
// place that it is not for, on the same server neither. A redirect must not lead from
// https to http.
func (c lfsClient) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("redirected too often")
	}
	last := via[len(via)-1].URL
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || last.Scheme == "https") {
		return fmt.Errorf("redirected from %s to %s", last.Scheme, r.URL.Scheme)
	}
	if !sameServer(r.URL, last) {
		r.Header = http.Header{"Accept": r.Header.Values("Accept"), "Content-Type": r.Header.Values("Content-Type")}
	}
	own := http.Request{Header: make(http.Header)}
	c.authorize(&own)
	if r.Header.Get("Authorization") == own.Header.Get("Authorization") && !c.isFor(r.URL) {
		r.Header.Del("Authorization")
	}
	return nil
}

func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

const (
	lfsType = "application/vnd.git-lfs+json"
	// maxBatch bounds an answer: a hundred objects, a few KiB of URL and header
	// each.
	maxBatch = 4 << 20
)

// lfsAction is where an object can be had.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// batch asks for the places of objects. One that the server does not have is an
// error.
func (c lfsClient) batch(ctx context.Context, objects []LFSPointer) (map[string]lfsAction, error) {
	watch := newWatch(ctx, c.limits.silence, c.limits.batch)
	defer watch.stop()
	type object struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	var list []object
	for _, p := range objects {
		list = append(list, object{p.OID, p.Size})
	}
	body, err := json.Marshal(map[string]any{
		"operation": "download", "transfers": []string{"basic"}, "hash_algo": "sha256", "objects": list,
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(watch.ctx, http.MethodPost, c.endpoint+"/objects/batch", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", lfsType)
	request.Header.Set("Content-Type", lfsType)
	c.authorize(request)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, lfsError(c.endpoint, watch.cause(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, lfsError(c.endpoint, statusError(response))
	}
	var answer struct {
		Transfer string
		Objects  []struct {
			OID     string
			Actions struct{ Download *lfsAction }
			Error   *struct {
				Code    int
				Message string
			}
		}
	}
	if err := json.NewDecoder(io.LimitReader(watch.body(response), maxBatch)).Decode(&answer); err != nil {
		return nil, lfsError(c.endpoint, watch.cause(fmt.Errorf("the answer is not one of an LFS server: %w", err)))
	}
	if answer.Transfer != "" && answer.Transfer != "basic" {
		return nil, lfsError(c.endpoint, fmt.Errorf("the server offers the transfer %q only", answer.Transfer))
	}
	actions := make(map[string]lfsAction)
	problems := make(map[string]error)
	for _, o := range answer.Objects {
		switch {
		case o.Error != nil:
			problems[o.OID] = fmt.Errorf("the server says %d %q", o.Error.Code, o.Error.Message)
		case o.Actions.Download != nil:
			actions[o.OID] = *o.Actions.Download
		}
	}
	for _, p := range objects {
		if _, ok := actions[p.OID]; ok {
			continue
		}
		problem := problems[p.OID]
		if problem == nil {
			problem = errors.New("the server does not offer it")
		}
		return nil, lfsObjectError(c.endpoint, p, problem)
	}
	return actions, nil
}

// authorize shows the credential.
func (c lfsClient) authorize(r *http.Request) {
	switch {
	case c.auth == nil:
	case c.auth.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.auth.Bearer)
	case c.auth.Password != "":
		r.SetBasicAuth(c.auth.User, c.auth.Password)
	}
}

// isFor reports whether the credential may be shown to a URL of its server.
func (c lfsClient) isFor(u *url.URL) bool {
	place := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return c.covers == nil || c.covers(place.String())
}

// get asks for an object with the header that the server gave for it; with the
// credential only if the place is one that it is for, and the server gave none.
func (c lfsClient) get(ctx context.Context, a lfsAction) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Href, nil)
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(c.endpoint)
	if err != nil {
		return nil, err
	}
	if request.URL.Scheme != "https" && (request.URL.Scheme != "http" || endpoint.Scheme == "https") {
		return nil, fmt.Errorf("the server sends its clients from %s to %q", endpoint.Scheme, request.URL.Scheme)
	}
	if sameServer(request.URL, endpoint) && c.isFor(request.URL) {
		c.authorize(request)
	}
	for name, value := range a.Header {
		request.Header.Set(name, value)
	}
	return c.http.Do(request)
}

// httpStatus is an answer that is not what was asked for.
type httpStatus struct{ code int }

func (s httpStatus) Error() string {
	return fmt.Sprintf("the server answers %d %s", s.code, http.StatusText(s.code))
}

func statusError(r *http.Response) error { return httpStatus{r.StatusCode} }

// lfsError is a failure of an LFS server.
func lfsError(endpoint string, err error) error {
	return &Error{Op: "fetch the LFS objects from", URL: endpoint, Kind: httpKind(err), Stderr: "fatal: " + lfsWords(err), Err: err}
}

// lfsObjectError is a failure of one object.
func lfsObjectError(endpoint string, p LFSPointer, err error) error {
	return &Error{
		Op: fmt.Sprintf("fetch LFS object %s of %q (lfs=false leaves pointers) from", p.OID, p.Path), URL: endpoint,
		Kind: httpKind(err), Stderr: "fatal: " + lfsWords(err), Err: err,
	}
}

// lfsWords leaves out the URL that net/http puts before an error: an object's may
// hold a signature.
func lfsWords(err error) string {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	return err.Error()
}

// httpKind classifies a failure of a request.
func httpKind(err error) Kind {
	status, isStatus := errors.AsType[httpStatus](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isVerify := errors.AsType[x509.UnknownAuthorityError](err)
	_, isName := errors.AsType[x509.HostnameError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSilent := errors.AsType[silentError](err)
	switch {
	case errors.Is(err, guard.ErrInside):
		return KindOther
	case isStatus && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden):
		return KindAuth
	case isStatus && (status.code >= 500 || status.code == http.StatusTooManyRequests):
		return KindServer
	case isStatus:
		return KindOther
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case isDNS:
		return KindHost
	case isVerify || isName:
		return KindTLS
	case isSilent, errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return KindTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return KindRefused
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return KindNoSpace
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return KindServer
	}
	return KindOther
}
