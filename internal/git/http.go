package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/guard"
)

// MaxRedirects bounds how many redirects are followed: http to https, an old name to a
// new one, and one to spare.
const MaxRedirects = 3

// askHTTPTimeout bounds one request of askHTTP.
const askHTTPTimeout = 15 * time.Second

const infoRefs = "/info/refs"

// askHTTP sends git's first request to a remote. It follows no redirect.
func (g *Git) askHTTP(ctx context.Context, r Remote, remote string, auth *Auth) (*http.Response, error) {
	from, err := url.Parse(remote)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, remote+infoRefs+"?service=git-upload-pack", nil)
	if err != nil {
		return nil, err
	}
	switch {
	case auth == nil:
	case auth.Bearer != "":
		request.Header.Set("Authorization", "Bearer "+auth.Bearer)
	case auth.Password != "":
		request.SetBasicAuth(auth.User, auth.Password)
	}
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: g.tls, Proxy: g.proxy, DisableKeepAlives: true, DialContext: pinDial(from, r.Pin)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       askHTTPTimeout,
	}
	return client.Do(request)
}

// pinDial returns the dial function of an HTTP client: it connects to u's host only at
// the addresses in pin, and to other hosts (proxies) as usual. Nil means the default.
func pinDial(u *url.URL, pin []netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	if len(pin) == 0 {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err != nil || host != u.Hostname() {
			return guard.DialPinned(ctx, network, address, nil)
		}
		return guard.DialPinned(ctx, network, address, pin)
	}
}

// redirected returns the URL that an HTTP remote redirects to. git itself follows no redirects
// here, because a remote could redirect it, with its credential, to any address that this
// machine can reach. A redirect within the host is followed; one to another host is an
// error that names the URL, which the user may then use.
//
// The request has the credential for the URL, because some remotes do not answer without it.
func (g *Git) redirected(ctx context.Context, r Remote, remote string) (string, error) {
	from, err := url.Parse(remote)
	if err != nil {
		return "", err
	}
	auth, err := r.auth(remote)
	if err != nil {
		return "", err
	}
	response, err := g.askHTTP(ctx, r, remote, auth)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	to, err := response.Location()
	if err != nil {
		return "", fmt.Errorf("%s: answered %s without a new location", remote, response.Status)
	}
	return redirect(from, to)
}

// redirect returns the repository's new URL, or an error if the redirect must not be
// followed.
func redirect(from, to *url.URL) (string, error) {
	refused := func(detail string) (string, error) {
		return "", &Error{Op: "ask", URL: from.String(), Kind: KindRedirect, Detail: detail}
	}
	path, ok := strings.CutSuffix(to.Path, infoRefs)
	if !ok {
		return refused("to a URL that is not a repository's")
	}
	place := url.URL{Scheme: to.Scheme, Host: to.Host, Path: path}
	a, b := guard.PlaceOf(from), guard.PlaceOf(to)
	upgrade := from.Scheme == "http" && to.Scheme == "https" && a.Port == "80" && b.Port == "443"
	same := from.Scheme == to.Scheme && a.Port == b.Port
	if to.User == nil && a.Host == b.Host && (same || upgrade) {
		return place.String(), nil
	}
	return refused("to " + place.String())
}

// follow calls f with the remote's URL, and again with each URL that it is redirected to.
func (g *Git) follow(ctx context.Context, r Remote, f func(url string) error) error {
	remote := r.URL
	for followed := 0; ; followed++ {
		err := f(remote)
		if KindOf(err) != KindRedirect {
			return err
		}
		if followed == MaxRedirects {
			return &Error{Op: "ask", URL: r.URL, Kind: KindRedirect, Detail: fmt.Sprintf("more than %d times, the last time from %s", MaxRedirects, remote)}
		}
		next, redirectErr := g.redirected(ctx, r, remote)
		if redirectErr != nil {
			if KindOf(redirectErr) == "" {
				return errors.Join(err, redirectErr)
			}
			return redirectErr
		}
		remote = next
	}
}

// loadCA returns the system's certificates and those of a PEM file, or nil if path is empty.
func loadCA(path string) (*tls.Config, error) {
	if path == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificate in PEM format", path)
	}
	return &tls.Config{RootCAs: pool}, nil
}
