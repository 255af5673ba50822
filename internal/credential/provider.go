package credential

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/volume"
)

// Provider asks for the secrets of one kind of credential that renews. It is called
// concurrently, for different questions.
type Provider interface {
	// Ask asks once, and returns in bounded time. Its errors name the credential, and
	// contain no secret.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Question is what a provider is asked.
type Question struct {
	Credential        // with the secret for the provider
	Provider   string // the URL to ask
	Repository string // the URL of the repository, as volume.URL.Normalized returns it
	Subject    volume.Subject
	Access     Access
}

// Answer is the secret for a question.
type Answer struct {
	User    string // empty: Secret is sent as a bearer token
	Secret  Secret
	Expires time.Time
}

// kind returns the kind of a static credential with the answer's secret.
func (a Answer) kind() Kind {
	if a.User == "" {
		return Bearer
	}
	return HTTPS
}

// check returns an error unless the answer can be used at a time. The error repeats
// nothing of it, because it comes from elsewhere.
func (a Answer) check(now time.Time) error {
	if err := checkUserText(a.User); err != nil {
		return err
	}
	if err := checkToken(a.kind(), a.Secret.Reveal()); err != nil {
		return err
	}
	if !a.Expires.After(now) {
		return invalid("expires_at", "is in the past: compare the provider's clock with this machine's")
	}
	return nil
}

// lfsSuffix is at the end of the URL of a repository's LFS server.
const lfsSuffix = "/info/lfs"

// repositoryOf returns the URL of the repository that u belongs to, which may be that of
// its LFS server.
func repositoryOf(u volume.URL) string {
	text := u.Normalized()
	if short, ok := strings.CutSuffix(text, lfsSuffix); ok {
		if r, err := volume.ParseURL(short, volume.AllSchemes()); err == nil {
			return r.Normalized()
		}
	}
	return text
}

// provider returns the URL that is asked for the secrets of a credential.
func (c Credential) provider(s scope) string {
	switch {
	case c.Kind == HTTPProvider:
		return c.URL
	case c.Kind != GitHubApp:
		return ""
	case c.API != "":
		return strings.TrimRight(c.API, "/")
	case s.host == "github.com":
		return "https://api.github.com"
	}
	return "https://" + s.host + "/api/v3"
}

// appID matches the numbers of apps, and their client IDs.
var appID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (c Credential) checkProvider(s scope) error {
	switch {
	case c.Kind != GitHubApp && c.AppID != "":
		return invalid("app_id", "is only for the kind %s", GitHubApp)
	case c.Kind != GitHubApp && c.API != "":
		return invalid("api", "is only for the kind %s", GitHubApp)
	case c.Kind != HTTPProvider && c.URL != "":
		return invalid("url", "is only for the kind %s", HTTPProvider)
	case c.Kind == HTTPProvider && c.URL == "":
		return invalid("url", "is missing: the https URL of the provider, or an http URL on this machine's loopback")
	case c.Kind == HTTPProvider:
		return checkEndpoint("url", c.URL)
	case c.Kind != GitHubApp:
		return nil
	case c.AppID == "":
		return invalid("app_id", "is missing: GitHub shows it in the settings of the app")
	case !appID.MatchString(c.AppID):
		return invalid("app_id", "%.80q is not the ID of an app: a number, or a client ID", c.AppID)
	case c.API != "":
		return checkEndpoint("api", c.API)
	case s.scheme != "https":
		return invalid("api", "is missing: only a scope with https has a default")
	}
	return nil
}

// maxEndpoint is in bytes.
const maxEndpoint = 2048

// checkEndpoint checks the URL of a provider. The secret for it crosses the network in
// clear text only if that does not leave the machine. The error does not repeat the URL,
// because it may have a password.
func checkEndpoint(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxEndpoint || !clean(text) || u.Hostname() == "" || u.Opaque != "":
		return invalid(field, "is not a URL of at most %d bytes, such as https://host/path", maxEndpoint)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return invalid(field, "has a user, a query or a fragment: the secret for the provider is the secret of the credential")
	case u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return invalid(field, "has neither the scheme https, nor http with a loopback address, such as http://127.0.0.1:8080/path")
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || host == "localhost"
}

// minAppKey is the size of the smallest key in bits: GitHub's keys have 2048.
const minAppKey = 2048

// ParseAppKey reads the private key of a GitHub App. The error does not repeat the text.
func ParseAppKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || len(text) > maxFile {
		return nil, invalid("secret", "is not a private key in PEM format: GitHub makes one in the settings of the app")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil && key.N.BitLen() >= minAppKey {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := parsed.(*rsa.PrivateKey); err == nil && ok && key.N.BitLen() >= minAppKey {
		return key, nil
	}
	return nil, invalid("secret", "is not an RSA key of %d bits or more, without a passphrase: GitHub makes one in the settings of the app", minAppKey)
}

// checkAppKey returns the fingerprint of an app's key, as GitHub shows it.
func checkAppKey(text string) ([]string, error) {
	key, err := ParseAppKey(text)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, invalid("secret", "has no public key")
	}
	sum := sha256.Sum256(public)
	return []string{"SHA256:" + base64.StdEncoding.EncodeToString(sum[:])}, nil
}
