package credential

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/helmdeck/repos/internal/volume"
)

// Kind says what the secret of a credential is.
type Kind string

const (
	HTTPS      Kind = "https"       // a password or token, sent with User as basic authentication
	Bearer     Kind = "bearer"      // a token, sent as Authorization: Bearer
	SSHKey     Kind = "ssh-key"     // a private key without a passphrase, OpenSSH or PEM
	KnownHosts Kind = "known-hosts" // lines of a known_hosts file, by which ssh verifies the host
	// The secrets of these kinds are not sent to a remote. A provider gives others for them,
	// which end: see Obtain.
	GitHubApp    Kind = "github-app" // the private key of a GitHub App, PEM
	HTTPProvider Kind = "http"       // a token for the provider at URL
)

// kinds has the schemes of the scopes of each kind.
var kinds = []struct {
	Kind
	schemes []string
}{
	{HTTPS, []string{"https", "http"}}, {Bearer, []string{"https", "http"}}, {SSHKey, []string{"ssh"}}, {KnownHosts, []string{"ssh"}},
	{GitHubApp, []string{"https", "http"}}, {HTTPProvider, []string{"https", "http"}},
}

// Renews reports whether the secrets that remotes get come from a provider.
func (k Kind) Renews() bool { return k == GitHubApp || k == HTTPProvider }

// Access is what a credential is used for.
type Access string

const (
	Fetch Access = "fetch" // the default
	Push  Access = "push"  // and fetch
)

// Credential is a credential as the user stores it. Name is not in its JSON, but in the
// URL of the request.
type Credential struct {
	Name    string         `json:"-"`
	Kind    Kind           `json:"kind"`
	Scope   string         `json:"scope"`
	Subject volume.Subject `json:"subject,omitempty"` // empty: for every subject
	User    string         `json:"user,omitempty"`    // required for HTTPS, else empty
	Allow   Access         `json:"allow,omitempty"`   // empty: Fetch
	AppID   string         `json:"app_id,omitempty"`  // required for GitHubApp, else empty: its ID, or its client ID
	// API is the URL of GitHub's API. Empty: that of the scope's host.
	API    string `json:"api,omitempty"`
	URL    string `json:"url,omitempty"` // of the provider: required for HTTPProvider, else empty
	Secret Secret `json:"secret"`
}

// Info is a stored credential without its secret.
type Info struct {
	Name    string
	Kind    Kind
	Scope   string // normalized
	Subject volume.Subject
	User    string
	Allow   Access
	AppID   string
	// Provider is the URL that is asked for secrets; empty for a kind that does not renew.
	Provider string
	// Expires is when the secret ends that was asked for last; zero if none is held.
	Expires time.Time
	// Failed says why the provider gave no secret when it was asked last.
	Failed string
	// Fingerprints are those of an ssh key, or of a known host's keys, as ssh-keygen -l
	// shows them, or that of an app's key, as GitHub shows it: SHA256:...
	Fingerprints []string
	// Problem says why the file is not used. All but Name is empty then.
	Problem string
}

// InvalidError says what is wrong with a Credential. It contains no secret.
type InvalidError struct {
	Field   string // as in JSON
	Problem string // follows the field
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{field, fmt.Sprintf(format, args...)}
}

// entry is a Credential that has been checked.
type entry struct {
	Credential // with the scope as the user wrote it
	scope      scope
	info       Info
	knownHosts string // the lines for the scope's host
	serial     int64  // not that of any other entry of the Store
	lent       bool   // see Store.Lend
}

// normalize returns c with its key as a file of it is.
func (c Credential) normalize() Credential {
	if (c.Kind == SSHKey || c.Kind == GitHubApp) && c.Secret.Reveal() != "" {
		c.Secret = NewSecret(keyFile(c.Secret.Reveal()))
	}
	return c
}

// check returns an *InvalidError unless c is valid.
func (c Credential) check() (entry, error) {
	e := entry{Credential: c}
	if err := checkName(c.Name); err != nil {
		return entry{}, err
	}
	schemes, err := c.Kind.schemes()
	if err != nil {
		return entry{}, err
	}
	if e.scope, err = parseScope(c.Scope, schemes); err != nil {
		return entry{}, err
	}
	if c.Subject != "" {
		if _, err := volume.ParseSubject(string(c.Subject)); err != nil {
			return entry{}, optionError("subject", err)
		}
	}
	if err := cmp.Or(c.checkUser(), c.checkAllow(), c.checkProvider(e.scope)); err != nil {
		return entry{}, err
	}
	var fingerprints []string
	switch c.Kind {
	case HTTPS, Bearer, HTTPProvider:
		err = checkToken(c.Kind, c.Secret.Reveal())
	case GitHubApp:
		fingerprints, err = checkAppKey(c.Secret.Reveal())
	case SSHKey:
		fingerprints, err = checkKey(c.Secret.Reveal())
	case KnownHosts:
		e.knownHosts, fingerprints, err = checkKnownHosts(c.Secret.Reveal(), e.scope)
	}
	if err != nil {
		return entry{}, err
	}
	e.info = Info{
		Name: c.Name, Kind: c.Kind, Scope: e.scope.String(), Subject: c.Subject, User: c.User, Allow: cmp.Or(c.Allow, Fetch),
		AppID: c.AppID, Provider: c.provider(e.scope), Fingerprints: fingerprints,
	}
	if c.Kind == KnownHosts {
		e.info.Allow = "" // it gives no access
	}
	return e, nil
}

func (k Kind) schemes() ([]string, error) {
	var allowed []string
	for _, known := range kinds {
		if k == known.Kind {
			return known.schemes, nil
		}
		allowed = append(allowed, string(known.Kind))
	}
	return nil, invalid("kind", "%.40q is unknown; allowed: %s", k, strings.Join(allowed, ", "))
}

// nameText begins with a letter or a digit, because a name is also a file name and a
// command's argument.
var nameText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkName(name string) error {
	if !nameText.MatchString(name) {
		return invalid("name", "%.80q is not 1 to 64 letters, digits, dots, dashes and underscores, a letter or a digit first", name)
	}
	return nil
}

// checkUser does not repeat the user in errors, because it may be a token.
func (c Credential) checkUser() error {
	switch {
	case c.Kind == SSHKey && c.User != "":
		return invalid("user", "belongs in the scope of an ssh key: ssh://user@host")
	case c.Kind != HTTPS && c.User != "":
		return invalid("user", "is only for the kind %s", HTTPS)
	case c.Kind != HTTPS:
		return nil
	case c.User == "":
		return invalid("user", "is missing; where only the token matters, any will do, such as x-access-token or oauth2")
	}
	return checkUserText(c.User)
}

func checkUserText(user string) error {
	// RFC 7617: the colon ends the user.
	if len(user) > 256 || strings.ContainsRune(user, ':') || !clean(user) {
		return invalid("user", "is not a text of at most 256 bytes without colons, line breaks and control characters")
	}
	return nil
}

func (c Credential) checkAllow() error {
	switch {
	case c.Allow != "" && c.Allow != Fetch && c.Allow != Push:
		return invalid("allow", "%.40q is unknown; allowed: %s, %s", c.Allow, Fetch, Push)
	case c.Kind == KnownHosts && c.Allow != "":
		return invalid("allow", "is not for the kind %s, which gives no access", KnownHosts)
	}
	return nil
}

// maxToken is in bytes: servers take 8 to 16 KiB of headers in all.
const maxToken = 16 << 10

// bearerText is the token68 of RFC 7235.
var bearerText = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

func checkToken(kind Kind, token string) error {
	switch {
	case token == "":
		return invalid("secret", "is missing")
	case len(token) > maxToken:
		return invalid("secret", "is longer than %d bytes", maxToken)
	case strings.Contains(token, "PRIVATE KEY-----"):
		return invalid("secret", "is a private key: its kind is %s or %s", SSHKey, GitHubApp)
	case !clean(token):
		return invalid("secret", "has a line break, a control character, or bytes that are not UTF-8")
	case kind != HTTPS && !bearerText.MatchString(token):
		return invalid("secret", "is not a bearer token: letters, digits and . _ ~ + / - (without the word Bearer)")
	}
	return nil
}

// clean also refuses U+FFFD, by which JSON decoding replaces bytes that are not UTF-8.
func clean(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) })
}

// optionError turns an error of package volume about an option, which is redacted, into
// one about a field.
func optionError(field string, err error) *InvalidError {
	var option *volume.OptionError
	if !errors.As(err, &option) {
		return invalid(field, "can't be used: %v", err)
	}
	if option.Value == "" {
		return invalid(field, "%s", option.Problem)
	}
	return invalid(field, "%q %s", option.Value, option.Problem)
}
