package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxRedirects is how many steps are followed: http to https, an old name to a
// new one, and one to spare.
const maxRedirects = 3

// redirectTimeout bounds one question where a URL has gone.
const redirectTimeout = 15 * time.Second

const infoRefs = "/info/refs"

// redirected asks an HTTP remote where it sends its clients. git itself follows
// no redirect here: a remote could send it, with what it carries, to any address
// that this machine can reach. A redirect within the host is taken; one to
// another host is told to the user, who may name that URL.
func (g *Git) redirected(ctx context.Context, remote string, pin []netip.Addr) (string, error) {
	from, err := url.Parse(remote)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, redirectTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, remote+infoRefs+"?service=git-upload-pack", nil)
	if err != nil {
		return "", err
	}
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: g.tls, Proxy: g.proxy, DisableKeepAlives: true, DialContext: pinDial(from, pin)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	to, err := response.Location()
	if err != nil {
		return "", fmt.Errorf("%s: answered %s without a new location", remote, response.Status)
	}
	path, ok := strings.CutSuffix(to.Path, infoRefs)
	sameHost := strings.EqualFold(to.Hostname(), from.Hostname())
	samePort := to.Port() == from.Port()
	upgrade := from.Scheme == "http" && to.Scheme == "https" && from.Port() == "" && to.Port() == ""
	place := url.URL{Scheme: to.Scheme, Host: to.Host, Path: path}
	switch {
	case !ok:
		return "", &Error{Op: "fetch", URL: remote, Kind: KindRedirect, Stderr: "fatal: redirected to a place that is no repository"}
	case to.User == nil && sameHost && (to.Scheme == from.Scheme && samePort || upgrade):
		return place.String(), nil
	}
	return "", &Error{Op: "fetch", URL: remote, Kind: KindRedirect, Stderr: "fatal: redirected to " + place.String()}
}

// follow calls f with the remote's URL, and again with where it is redirected to.
func (g *Git) follow(ctx context.Context, r Remote, f func(url string) error) error {
	remote := r.URL
	for range maxRedirects {
		err := f(remote)
		if KindOf(err) != KindRedirect {
			return err
		}
		next, redirectErr := g.redirected(ctx, remote, r.Pin)
		if redirectErr != nil {
			if KindOf(redirectErr) == "" {
				return errors.Join(err, redirectErr)
			}
			return redirectErr
		}
		remote = next
	}
	return &Error{Op: "fetch", URL: remote, Kind: KindRedirect, Stderr: "fatal: redirected too often"}
}

// loadCA returns the system's certificates and those of a PEM file.
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
		return nil, fmt.Errorf("%s: no certificate in it", path)
	}
	return &tls.Config{RootCAs: pool}, nil
}
