package lfs

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
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/guard"
)

// client speaks the batch API of git-lfs (docs/api/batch.md there).
//
// It is not the git-lfs program, for that follows the server's answers to any
// address: an object's URL, and every redirect, is the server's to choose.
type client struct {
	endpoint string
	auth     *git.Auth
	covers   func(url string) bool // of an Fetch
	http     *http.Client
	limits   limits
}

// limits bound every request, whatever the server sends.
type limits struct {
	silence         time.Duration // nothing arrives for that long
	batch, transfer time.Duration // a question, a download in all
}

func newClient(g *git.Git, f Fetch) client {
	certificates, proxy, stall := g.HTTP()
	direct := &http.Transport{
		DialContext: f.Rule.Dial, TLSClientConfig: certificates.Clone(), ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: downloads,
	}
	proxied := direct.Clone()
	proxied.DialContext, proxied.Proxy = nil, proxy
	c := client{
		endpoint: f.Endpoint, auth: f.Auth, covers: f.Covers,
		limits: limits{silence: min(stall, maxStall), batch: batchTotal, transfer: transferTotal},
	}
	c.http = &http.Client{
		Transport:     transport{direct: direct, proxied: proxied, proxy: proxy, rule: f.Rule},
		CheckRedirect: c.checkRedirect,
	}
	return c
}

// transport holds every request to the rule: the connection itself, or, where
// a proxy makes that, the name.
type transport struct {
	direct, proxied *http.Transport
	proxy           func(*http.Request) (*url.URL, error)
	rule            guard.Rule
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	via, err := t.proxy(r)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return t.direct.RoundTrip(r)
	}
	if _, err := t.rule.Check(r.Context(), guard.PlaceOf(r.URL)); err != nil {
		return nil, err
	}
	return t.proxied.RoundTrip(r)
}

// CloseIdleConnections is called by the client's method of that name.
func (t transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// checkRedirect lets nothing but the question itself go to another server: not
// a login, and not what the first server gave for itself. The credential goes to no
// place that it is not for, on the same server neither. A redirect must not lead from
// https to http.
func (c client) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > git.MaxRedirects {
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
	return a.Scheme == b.Scheme && guard.PlaceOf(a) == guard.PlaceOf(b)
}

const (
	mediaType = "application/vnd.git-lfs+json"
	// maxBatch bounds an answer: a hundred objects, a few KiB of URL and header
	// each.
	maxBatch = 4 << 20
)

// action is where an object can be had.
type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// batch asks for the places of objects. One that the server does not have is an
// error.
func (c client) batch(ctx context.Context, objects []Pointer) (map[string]action, error) {
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
	request.Header.Set("Accept", mediaType)
	request.Header.Set("Content-Type", mediaType)
	c.authorize(request)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, serverError(c.endpoint, watch.cause(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, serverError(c.endpoint, statusError(response))
	}
	var answer struct {
		Transfer string
		Objects  []struct {
			OID     string
			Actions struct{ Download *action }
			Error   *struct {
				Code    int
				Message string
			}
		}
	}
	if err := json.NewDecoder(io.LimitReader(watch.body(response), maxBatch)).Decode(&answer); err != nil {
		return nil, serverError(c.endpoint, watch.cause(fmt.Errorf("the answer is not one of an LFS server: %w", err)))
	}
	if answer.Transfer != "" && answer.Transfer != "basic" {
		return nil, serverError(c.endpoint, fmt.Errorf("the server offers the transfer %q only", answer.Transfer))
	}
	actions := make(map[string]action)
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
		return nil, objectError(c.endpoint, p, problem)
	}
	return actions, nil
}

// authorize shows the credential.
func (c client) authorize(r *http.Request) {
	switch {
	case c.auth == nil:
	case c.auth.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.auth.Bearer)
	case c.auth.Password != "":
		r.SetBasicAuth(c.auth.User, c.auth.Password)
	}
}

// isFor reports whether the credential may be shown to a URL of its server.
func (c client) isFor(u *url.URL) bool {
	place := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return c.covers == nil || c.covers(place.String())
}

// get asks for an object with the header that the server gave for it; with the
// credential only if the place is one that it is for, and the server gave none.
func (c client) get(ctx context.Context, a action) (*http.Response, error) {
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

// serverError is a failure of an LFS server.
func serverError(endpoint string, err error) error {
	return &git.Error{Op: "fetch the LFS objects from", URL: endpoint, Kind: httpKind(err), Stderr: "fatal: " + wordsOf(err), Err: err}
}

// objectError is a failure of one object.
func objectError(endpoint string, p Pointer, err error) error {
	return &git.Error{
		Op: fmt.Sprintf("fetch LFS object %s of %q (lfs=false leaves pointers) from", p.OID, p.Path), URL: endpoint,
		Kind: httpKind(err), Stderr: "fatal: " + wordsOf(err), Err: err,
	}
}

// wordsOf leaves out the URL that net/http puts before an error: an object's may
// hold a signature.
func wordsOf(err error) string {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	return err.Error()
}

// httpKind classifies a failure of a request.
func httpKind(err error) git.Kind {
	status, isStatus := errors.AsType[httpStatus](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isVerify := errors.AsType[x509.UnknownAuthorityError](err)
	_, isName := errors.AsType[x509.HostnameError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSilent := errors.AsType[git.SilentError](err)
	switch {
	case errors.Is(err, guard.ErrInside):
		return git.KindOther
	case isStatus && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden):
		return git.KindAuth
	case isStatus && (status.code >= 500 || status.code == http.StatusTooManyRequests):
		return git.KindServer
	case isStatus:
		return git.KindOther
	case errors.Is(err, context.Canceled):
		return git.KindCanceled
	case isDNS:
		return git.KindHost
	case isVerify || isName:
		return git.KindTLS
	case isSilent, errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return git.KindTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return git.KindRefused
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return git.KindNoSpace
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return git.KindServer
	}
	return git.KindOther
}
