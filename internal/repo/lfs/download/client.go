package download

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/intake"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/internal/work"
)

// client is a client of the batch API of git-lfs (docs/api/batch.md there).
//
// It replaces the git-lfs program, because that connects to any address that the server
// chooses by an object's URL or a redirect.
type client struct {
	Job
	http   *http.Client
	limits limits
}

// limits bound every request, whatever the server sends.
type limits struct {
	silence time.Duration // without data
	batch   time.Duration // in all, for a batch request
}

func newClient(g *git.Git, j Job) client {
	certificates, proxy, stall := g.HTTP()
	direct := &http.Transport{
		DialContext: intake.Dial(j.Rule.Dial).Bounded(), TLSClientConfig: certificates.Clone(), ForceAttemptHTTP2: true,
		// A compressed answer could inflate to anything, or to nothing.
		MaxIdleConnsPerHost: downloads, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
	}
	proxied := direct.Clone()
	proxied.DialContext, proxied.Proxy = intake.Dial(new(net.Dialer).DialContext).Bounded(), proxy
	c := client{Job: j, limits: limits{silence: min(stall, maxStall), batch: batchTotal}}
	c.http = &http.Client{
		Transport:     transport{direct: direct, proxied: proxied, proxy: proxy, rule: j.Rule},
		CheckRedirect: c.checkRedirect,
	}
	return c
}

// transport applies the rule to every request: to the address it connects to or, behind a
// proxy, to the host's name.
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
		return intake.Answer(t.direct, r)
	}
	if _, err := t.rule.Check(r.Context(), guard.HostPortOf(r.URL)); err != nil {
		return nil, err
	}
	return intake.Answer(t.proxied, r)
}

// CloseIdleConnections implements http.Client.CloseIdleConnections.
func (t transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// checkRedirect removes the credential, and headers that the first server gave, from a request
// that has left that server: net/http adds them to each. On the same server it also removes the
// credential from URLs that it is not for. A redirect must not lead from https to http. A question stays one, as in
// git-lfs, whatever the status of the redirect: net/http would make a GET of it.
func (c client) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > git.MaxRedirects {
		return errors.New("redirected too often")
	}
	last := via[len(via)-1].URL
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || last.Scheme == "https") {
		return fmt.Errorf("redirected from %s to %s", last.Scheme, r.URL.Scheme)
	}
	if first := via[0]; first.GetBody != nil && r.Body == nil {
		body, err := first.GetBody()
		if err != nil {
			return err
		}
		r.Method, r.Body, r.GetBody, r.ContentLength = first.Method, body, first.GetBody, first.ContentLength
		r.Header.Set("Content-Type", first.Header.Get("Content-Type"))
	}
	left := func(to *http.Request) bool { return !sameServer(to.URL, via[0].URL) }
	if left(r) || slices.ContainsFunc(via, left) {
		r.Header = http.Header{"Accept": r.Header.Values("Accept"), "Content-Type": r.Header.Values("Content-Type")}
	}
	// The request has the context of the first one, and so its credential.
	auth := authOf(r.Context())
	own := http.Request{Header: make(http.Header)}
	authorize(&own, auth)
	if r.Header.Get("Authorization") == own.Header.Get("Authorization") && !isFor(auth, r.URL) {
		r.Header.Del("Authorization")
	}
	return nil
}

func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && guard.HostPortOf(a) == guard.HostPortOf(b)
}

const (
	mediaType = "application/vnd.git-lfs+json"
	// maxBatch bounds a batch response, in bytes: a hundred objects, each with a few KiB of URL and
	// headers. maxElements bounds its names and values.
	maxBatch    = 4 << 20
	maxElements = 20_000
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
)

// action says how to download an object.
type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// batch asks the server how to download objects. An object that it does not have is an
// error.
func (c client) batch(ctx context.Context, objects []lfs.Pointer) (map[string]action, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.batch, lateError(c.limits.batch))
	defer cancel()
	watch := newWatch(ctx, c.limits.silence)
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
	request, err := http.NewRequestWithContext(watch.ctx, http.MethodPost, c.Endpoint+"/objects/batch", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", mediaType)
	request.Header.Set("Content-Type", mediaType)
	authorize(request, authOf(ctx))
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.serverError(watch.cause(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, c.serverError(httpStatus(response.StatusCode))
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/html" || kind == "application/xhtml+xml" {
		return nil, c.serverError(errPage)
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
	data, err := io.ReadAll(io.LimitReader(watch.body(response), maxBatch+1))
	if err == nil && len(data) > maxBatch {
		err = fmt.Errorf("it has more than %d bytes", maxBatch)
	}
	if coding := response.Header.Get("Content-Encoding"); err == nil && coding != "" {
		err = fmt.Errorf("it has the coding %.20q, and none was asked for", coding)
	}
	err = cmp.Or(err, intake.Elements(data, maxElements))
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err != nil {
		return nil, c.serverError(watch.cause(fmt.Errorf("the answer is not that of an LFS server: %w", err)))
	}
	if answer.Transfer != "" && answer.Transfer != "basic" {
		return nil, c.serverError(fmt.Errorf("the server offers only the transfer %q", answer.Transfer))
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
		return nil, c.objectError(p, cmp.Or(problems[p.OID], errors.New("the server does not offer it")))
	}
	return actions, nil
}

// authKey is the key of a request's credential in its context.
type authKey struct{}

// withAuth calls f with a context that has the credential, and again with another secret if
// the server refused one that can be renewed.
func (c client) withAuth(ctx context.Context, f func(ctx context.Context) error) error {
	r := git.Remote{URL: c.Endpoint}
	if c.Auth != nil {
		r.Auth = func(ctx context.Context, _ string) (*git.Auth, error) { return c.Auth(ctx) }
	}
	return r.WithAuth(ctx, opFetch, c.Endpoint, func(auth *git.Auth) error {
		return f(context.WithValue(ctx, authKey{}, auth))
	})
}

// authOf returns the credential of a context, or nil.
func authOf(ctx context.Context) *git.Auth {
	auth, _ := ctx.Value(authKey{}).(*git.Auth)
	return auth
}

// authorize adds a credential.
func authorize(r *http.Request, auth *git.Auth) {
	switch {
	case auth == nil:
	case auth.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+auth.Bearer)
	case auth.Password != "":
		r.SetBasicAuth(auth.User, auth.Password)
	}
}

// isFor reports whether a credential may be sent to a URL of its server.
func isFor(auth *git.Auth, u *url.URL) bool {
	place := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return auth == nil || auth.Covers == nil || auth.Covers(place.String())
}

// takesAuth reports whether the credential is for an object: it is on the server itself,
// and the headers that this gave for it have none.
func (c client) takesAuth(a action) bool {
	for name := range a.Header {
		if strings.EqualFold(name, "Authorization") {
			return false
		}
	}
	u, err := url.Parse(a.Href)
	if err != nil {
		return false
	}
	endpoint, err := url.Parse(c.Endpoint)
	return err == nil && sameServer(u, endpoint)
}

// get requests an object with the headers that the server gave for it, and with the
// credential if that is for the URL and those headers have none.
func (c client) get(ctx context.Context, a action) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Href, nil)
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	if request.URL.Scheme != "https" && (request.URL.Scheme != "http" || endpoint.Scheme == "https") {
		return nil, fmt.Errorf("the server sends its clients from %s to %q", endpoint.Scheme, request.URL.Scheme)
	}
	if auth := authOf(ctx); sameServer(request.URL, endpoint) && isFor(auth, request.URL) {
		authorize(request, auth)
	}
	for name, value := range a.Header {
		request.Header.Set(name, value)
	}
	return c.http.Do(request)
}

// httpStatus is an unexpected response status.
type httpStatus int

func (s httpStatus) Error() string {
	return fmt.Sprintf("the server answers %d %s", int(s), http.StatusText(int(s)))
}

// errPage is the answer of a website, such as a login or a captive portal.
var errPage = errors.New("the server answered with a page of HTML, and not as an LFS server")

// StatusCode returns the status.
func (s httpStatus) StatusCode() int { return int(s) }

const opFetch = "fetch the LFS objects from"

// serverError makes the error for a failure of the LFS server.
func (c client) serverError(err error) error { return c.gitError(opFetch, err) }

// objectError makes the error for a failure of one object.
func (c client) objectError(p lfs.Pointer, err error) error {
	return c.gitError(fmt.Sprintf("fetch LFS object %s of %q (lfs=false leaves pointers) from", p.OID, p.Path), err)
}

// gitError makes the error for a failure of op. Its text is that of err, without the URL
// that net/http adds, because an object's URL may contain a signature.
func (c client) gitError(op string, err error) error {
	if _, late := errors.AsType[*work.LimitError](err); late {
		return giterror.New(op, c.Endpoint, "", err, false)
	}
	text := err
	if bad, ok := errors.AsType[*url.Error](err); ok {
		text = bad.Err
	}
	return &giterror.Error{Op: op, URL: c.Endpoint, Kind: httpKind(err), Stderr: "fatal: " + text.Error(), Err: err}
}

// httpKind classifies the failure of a request.
func httpKind(err error) giterror.Kind {
	status, isStatus := errors.AsType[httpStatus](err)
	switch {
	case errors.Is(err, guard.ErrInside):
		return giterror.KindOther
	case errors.Is(err, errPage):
		return giterror.KindPage
	case isStatus && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		return giterror.KindAuth
	case isStatus && (status >= 500 || status == http.StatusTooManyRequests):
		return giterror.KindServer
	case isStatus:
		return giterror.KindOther
	}
	return giterror.Network(err)
}

// watch ends an HTTP request if nothing arrives for some time, before the headers of the
// last response or later in its body. net/http has no such limit for a body.
type watch struct {
	ctx     context.Context // of the request
	stop    func()          // to be called at its end
	silent  *time.Timer
	silence time.Duration
}

// newWatch starts the timer of a request, which must use the context of the watch.
func newWatch(ctx context.Context, silence time.Duration) *watch {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{ctx: ctx, silence: silence}
	w.silent = time.AfterFunc(silence, func() { cancel(giterror.SilentError(silence)) })
	w.stop = func() {
		w.silent.Stop()
		cancel(nil)
	}
	return w
}

// cause returns why the watch ended the request, or err if it did not.
func (w *watch) cause(err error) error { return cmp.Or(context.Cause(w.ctx), err) }

// body returns a reader for the response's body that resets the silence timer.
func (w *watch) body(r *http.Response) io.Reader {
	w.silent.Reset(w.silence)
	return watchedBody{w, r.Body}
}

type watchedBody struct {
	*watch
	body io.Reader
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if n > 0 {
		b.silent.Reset(b.silence)
	}
	return n, err
}

// lateError ends a request that exceeds its total time. It is not retried, because that
// would take as long.
type lateError time.Duration

func (l lateError) Error() string {
	return fmt.Sprintf("the answer was not complete after %v", time.Duration(l))
}
