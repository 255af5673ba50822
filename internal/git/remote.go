package git

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/githelper"
	"github.com/helmdeck/repos/internal/git/gitssh"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/work"
)

// Remote is a remote repository, with its credentials.
type Remote struct {
	URL string
	// Auth returns the credential for a URL of the remote's host, or nil. It is called
	// again after a redirect, so that a secret is never sent outside of its scope.
	// An error of a provider of secrets has a Kind.
	Auth func(ctx context.Context, url string) (*Auth, error)
	// User, if not empty, is sent without a password to an HTTP server that asks, if there is no
	// credential.
	User string
	// Pin, if not empty, has the only addresses to connect to for the URL's host, even if
	// the name servers answer differently by then. A git:// remote can't be pinned.
	Pin []netip.Addr
}

// RunRemote executes c, which talks to the remote, with the credential for its URL,
// retries and redirects. If the server takes no request without a length, it executes c once
// more: see Config.PostBuffer. So it does if the threads of a fetch take too much memory, with one. It sets c.url to the URL, and c.Args to withURL(url). A command that
// is not a question ends if it is silent for Config.StallTimeout.
func (g *Git) RunRemote(ctx context.Context, r Remote, c Command, withURL func(url string) []string) (out []byte, err error) {
	kind := work.Question
	if !c.question {
		kind, c.silence = work.Fetch, g.config.StallTimeout
	}
	if c.fetches {
		began := time.Now()
		defer func() { g.observe(FetchedRemote, ThroughGit, began, err) }()
	}
	ctx, done, err := g.schedule(ctx, kind, false, c.Op, r.URL)
	if err != nil {
		return nil, err
	}
	defer done()
	err = giterror.Retry(ctx, func() error {
		return g.follow(ctx, r, func(url string) error {
			return r.WithAuth(ctx, c.Op, url, func(auth *Auth) (err error) {
				out, err = g.runAt(ctx, r, url, auth, c, withURL(url))
				if giterror.KindOf(err) == giterror.KindRequest && g.config.PostBuffer > 0 {
					c.postBuffer = g.config.PostBuffer // from now on
					out, err = g.runAt(ctx, r, url, auth, c, withURL(url))
				}
				if c.fetches && !c.oneThread && g.needsOneThread(err) {
					c.oneThread = true
					out, err = g.runAt(ctx, r, url, auth, c, withURL(url))
				}
				return err
			})
		})
	})
	return out, err
}

// runAt executes c with args, which talks to the remote at url, once.
func (g *Git) runAt(ctx context.Context, r Remote, url string, auth *Auth, c Command, args []string) ([]byte, error) {
	c.url, c.Args = url, args
	c.UID, c.GID = g.config.UID, g.config.GID
	c.remote = true
	c.Env = slices.Concat(c.Env, g.proxies)
	pinned, err := pinConfig(url, r.Pin)
	if err != nil {
		return nil, err
	}
	// An empty helper removes all helpers that a configuration names.
	config := append([]string{"credential.helper", ""}, pinned...)
	if isHTTP(url) && !c.question {
		c.silence = 0 // curl has its own limit
		config = append(config, "http.lowSpeedLimit", "1", "http.lowSpeedTime", strconv.Itoa(max(1, int(g.config.StallTimeout.Seconds()))))
	}
	if c.postBuffer > 0 {
		config = append(config, "http.postBuffer", strconv.FormatInt(c.postBuffer, 10))
	}
	if g.config.CABundle != "" {
		config = append(config, "http.sslCAInfo", g.config.CABundle)
		c.Read = append([]string{g.config.CABundle}, c.Read...)
	}
	switch {
	case gitssh.IsRemote(url):
		var key, known []byte
		if auth != nil {
			key, known = auth.SSHKey, auth.KnownHosts
		}
		session, err := gitssh.Start(g.config.UID, g.config.GID, key, known)
		if err != nil {
			return nil, err
		}
		defer session.Close()
		if c.aside, err = newAside(); err != nil {
			return nil, err
		}
		defer c.aside.close()
		c.files = []*os.File{c.aside.write}
		c.Env = append(c.Env, "GIT_SSH_COMMAND="+session.Command(url, r.Pin)+toAside, "GIT_SSH_VARIANT=ssh")
		c.Read = append([]string{session.Dir}, c.Read...)
	case auth.HasLogin():
		more, pipe, err := githelper.New(url, githelper.Credential{User: auth.User, Password: auth.Password, Bearer: auth.Bearer})
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		config = append(config, more...)
		c.files = []*os.File{pipe}
	}
	c.config = config
	out, err := g.Run(ctx, c)
	g.explain(ctx, r, url, auth, err)
	if err != nil && c.cleanup != nil {
		err = errors.Join(err, c.cleanup())
	}
	return out, err
}

// pinConfig returns the configuration that makes git connect to remote's host only at the
// addresses in pin. Behind a proxy it has no effect, because the proxy connects.
func pinConfig(remote string, pin []netip.Addr) ([]string, error) {
	if len(pin) == 0 || gitssh.IsRemote(remote) {
		return nil, nil
	}
	u, err := url.Parse(remote)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%s: a %s connection can't be held to the address that was checked, so it may lead to the volume's own server alone", remote, u.Scheme)
	}
	list := make([]string, len(pin))
	for i, a := range pin {
		list[i] = a.String()
		if a.Is6() {
			list[i] = "[" + list[i] + "]"
		}
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		return nil, nil // the host is an address already
	}
	return []string{"http.curloptResolve", host + ":" + guard.HostPortOf(u).Port + ":" + strings.Join(list, ",")}, nil
}

// isHTTP reports whether a URL's scheme is http or https.
func isHTTP(remote string) bool {
	return strings.HasPrefix(remote, "https://") || strings.HasPrefix(remote, "http://")
}
