package git

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/work"
)

// Auth is a credential, and the known hosts to verify the server by. Formatting it shows
// nothing.
type Auth struct {
	Name           string // of the credential, for errors; empty without a credential
	User, Password string // basic; the password may be empty
	Bearer         string // instead of a password
	SSHKey         []byte // a private key without passphrase, PEM
	KnownHosts     []byte // lines of an OpenSSH known_hosts file

	// Renew, if not nil, returns another secret in place of this one, which the remote has
	// refused because it ended, or was revoked; or the same one, if there is no other yet. It is
	// called once.
	Renew func(ctx context.Context) (*Auth, error)
	// Owner, if not empty, stays the same when the secret is renewed, and says which
	// connections it may share with others.
	Owner string
	// Covers, if not nil, reports whether the credential may be sent to another URL of the
	// remote's host.
	Covers func(url string) bool
}

// String hides the credential.
func (*Auth) String() string { return "(hidden)" }

// GoString hides the credential.
func (*Auth) GoString() string { return "(hidden)" }

// HasLogin reports whether a is something to send to an HTTP server that asks: a token, a password, or a user alone.
func (a *Auth) HasLogin() bool {
	return a != nil && (a.User != "" || a.Password != "" || a.Bearer != "")
}

// auth returns the credential for a URL. The error has a Kind.
func (r Remote) auth(ctx context.Context, op, url string) (*Auth, error) {
	if r.Auth == nil {
		return nil, nil
	}
	a, err := r.Auth(ctx, url)
	switch {
	case err == nil && r.User != "" && !a.HasLogin():
		return &Auth{User: r.User}, nil
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, giterror.New(op, url, "", context.Cause(ctx), false)
	case giterror.KindOf(err) != "": // the provider of the secret
		return nil, err
	case errors.Is(err, work.ErrClosed):
		return nil, &giterror.Error{Op: op, URL: url, Kind: giterror.KindCanceled, Err: err}
	}
	return nil, &giterror.Error{Op: op, URL: url, Kind: giterror.KindCredential, Err: err}
}

// WithAuth calls f with the credential for a URL, and again with another secret if the
// remote refused one that can be renewed.
func (r Remote) WithAuth(ctx context.Context, op, url string, f func(*Auth) error) error {
	a, err := r.auth(ctx, op, url)
	if err != nil {
		return err
	}
	err = f(a)
	if a == nil || a.Renew == nil || !isUnauthorized(err) {
		return err
	}
	r.Auth = func(ctx context.Context, _ string) (*Auth, error) { return a.Renew(ctx) }
	renewed, renewErr := r.auth(ctx, op, url)
	switch {
	case renewErr != nil:
		return renewErr
	case renewed.Password == a.Password && renewed.Bearer == a.Bearer:
		return err // the remote has refused that
	}
	return f(renewed)
}

// isUnauthorized reports whether a remote refused a secret (401), and not what it gives a
// right to (403).
func isUnauthorized(err error) bool {
	if status, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		return status.StatusCode() == http.StatusUnauthorized
	}
	e, ok := errors.AsType[*giterror.Error](err)
	return ok && e.Kind == giterror.KindAuth && !strings.Contains(e.Stderr, "returned error: 403")
}

// configEnv returns the environment variables that pass configuration, in which a key may
// have any character. Nothing in it is secret.
func configEnv(pairs []string) []string {
	if len(pairs) == 0 {
		return nil
	}
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i/2, pairs[i]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i/2, pairs[i+1]))
	}
	return env
}
