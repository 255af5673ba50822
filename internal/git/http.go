package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/githttp"
	"github.com/helmdeck/repos/internal/git/guard"
)

// MaxRedirects bounds how many redirects are followed: http to https, an old name to a
// new one, and one to spare.
const MaxRedirects = 3

// probeTimeout bounds the request of probe.
const probeTimeout = 15 * time.Second

// probe sends git's first request to a remote, which gets a credential if it asks for one.
func (g *Git) probe(ctx context.Context, r Remote, url string, auth *Auth) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return g.http.Probe(ctx, r.direct(url, auth))
}

// redirected returns the URL that an HTTP remote redirects to; err is that of its answer.
// git itself follows no redirects here, because a remote could redirect it, with its
// credential, to any address that this machine can reach. A redirect within the host is
// followed; one to another host is an error that names the URL, which the user may then use.
//
// If err has no URL, because git does not say it, redirected asks. The request has the
// credential for the URL, because some remotes do not answer without it.
func (g *Git) redirected(ctx context.Context, r Remote, remote string, err error) (string, error) {
	from, parseErr := url.Parse(remote)
	if parseErr != nil {
		return "", parseErr
	}
	status, ok := errors.AsType[*githttp.StatusError](err)
	if !ok {
		auth, err := r.auth(ctx, "ask", remote)
		if err != nil {
			return "", err
		}
		err = g.probe(ctx, r, remote, auth)
		if status, ok = errors.AsType[*githttp.StatusError](err); !ok && err != nil {
			return "", err
		}
	}
	if !ok || status.Location == nil {
		return "", fmt.Errorf("%s: it redirected git, and answers now without a new location", remote)
	}
	return redirect(from, status.Location)
}

// redirect returns the repository's new URL, or an error if the redirect must not be
// followed.
func redirect(from, to *url.URL) (string, error) {
	refused := func(detail string) (string, error) {
		return "", &giterror.Error{Op: "ask", URL: from.String(), Kind: giterror.KindRedirect, Detail: detail}
	}
	path, ok := strings.CutSuffix(to.Path, githttp.InfoRefs)
	if !ok {
		return refused("to a URL that is not a repository's")
	}
	// A host in other letters would not be found among the pinned ones.
	place := url.URL{Scheme: to.Scheme, Host: strings.ToLower(to.Host), Path: path}
	a, b := guard.HostPortOf(from), guard.HostPortOf(to)
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
		if giterror.KindOf(err) != giterror.KindRedirect {
			return err
		}
		if followed == MaxRedirects {
			return &giterror.Error{Op: "ask", URL: r.URL, Kind: giterror.KindRedirect, Detail: fmt.Sprintf("more than %d times, the last time from %s", MaxRedirects, remote)}
		}
		next, redirectErr := g.redirected(ctx, r, remote, err)
		if redirectErr != nil {
			if giterror.KindOf(redirectErr) == "" {
				return errors.Join(err, redirectErr)
			}
			return redirectErr
		}
		remote = next
	}
}
