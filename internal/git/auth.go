package git

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/helmdeck/repos/internal/giterror"
)

// Auth is a credential, and the known hosts to verify the server by. Formatting it shows
// nothing.
type Auth struct {
	Name           string // of the credential, for errors; empty without a credential
	User, Password string // basic
	Bearer         string // instead of a password
	SSHKey         []byte // a private key without passphrase, PEM
	KnownHosts     []byte // lines of an OpenSSH known_hosts file

	// Renew, if not nil, returns another secret in place of this one, which the remote has
	// refused because it ended, or was revoked. It is called once.
	Renew func(ctx context.Context) (*Auth, error)
	// Holder, if not empty, stays the same when the secret is renewed, and says which
	// connections it may share with others.
	Holder string
	// Covers, if not nil, reports whether the credential may be sent to another URL of the
	// remote's host.
	Covers func(url string) bool
}

// String hides the credential.
func (*Auth) String() string { return "(hidden)" }

// GoString hides the credential.
func (*Auth) GoString() string { return "(hidden)" }

// auth returns the credential for a URL. The error has a Kind.
func (r Remote) auth(ctx context.Context, op, url string) (*Auth, error) {
	if r.Auth == nil {
		return nil, nil
	}
	a, err := r.Auth(ctx, url)
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, giterror.New(op, url, "", context.Cause(ctx), false)
	case giterror.KindOf(err) != "": // the provider of the secret
		return nil, err
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
	if a, err = r.auth(ctx, op, url); err != nil {
		return err
	}
	return f(a)
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

// credentialFD is the child's descriptor for the credential: the first of
// exec.Cmd.ExtraFiles.
const credentialFD = 3

// credentialBlocks is how often one command can ask for its credential: once, and again
// if a server treats a new connection as a new client.
const credentialBlocks = 8

// pipeRoom is how many bytes fit into a pipe without a reader (pipe(7): 64 KiB).
const pipeRoom = 60 << 10

// httpAuth returns the configuration for a credential helper, and the pipe that it reads
// a from. The secret is in no argument, file or environment. The helper is a short shell
// function, which answers only for rawURL and with the content of the pipe.
func httpAuth(rawURL string, a *Auth) (config []string, pipe *os.File, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("credential for %s: %w", rawURL, err)
	}
	block := "username=" + a.User + "\npassword=" + a.Password + "\n\n"
	if a.Bearer != "" {
		block = "capability[]=authtype\nauthtype=Bearer\ncredential=" + a.Bearer + "\n\n"
	}
	if strings.Count(block, "\n") != 3 && a.Bearer == "" || len(block)*2 > pipeRoom {
		return nil, nil, errors.New("the credential contains a line break, or is too long")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	for range min(credentialBlocks, pipeRoom/len(block)) {
		if _, err := w.WriteString(block); err != nil {
			return nil, nil, errors.Join(err, r.Close())
		}
	}
	// git writes its request to the helper's stdin. The configuration section has matched
	// host and path; check scheme and host once more.
	helper := fmt.Sprintf(`!f() { [ "$1" = get ] || exit 0; p= h=; while IFS= read -r l && [ -n "$l" ]; do case $l in protocol=%s) p=1;; host=%s) h=1;; esac; done; [ "$p$h" = 11 ] || exit 0; while IFS= read -r l <&%d && [ -n "$l" ]; do printf '%%s\n' "$l"; done; }; f`,
		shellQuote(u.Scheme), shellQuote(u.Host), credentialFD)
	return []string{
		"credential.useHttpPath", "true",
		"credential." + rawURL + ".helper", helper,
	}, r, nil
}

// shellQuote quotes s for the pattern of a shell case.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

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
