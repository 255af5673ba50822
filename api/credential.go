package api

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// The kinds of credentials.
const (
	HTTPS      = "https"       // a password or token, sent with User as basic authentication
	Bearer     = "bearer"      // a token, sent as Authorization: Bearer
	SSHKey     = "ssh-key"     // a private key without a passphrase, OpenSSH or PEM
	KnownHosts = "known-hosts" // lines of a known_hosts file
	// Remotes do not get the secrets of these kinds, but others that a provider gives for
	// them, and that end.
	GitHubApp    = "github-app" // the private key of a GitHub App, PEM
	HTTPProvider = "http"       // a token for the provider at URL
)

// CredentialKinds returns the kinds of credentials.
func CredentialKinds() []string {
	return []string{HTTPS, Bearer, SSHKey, KnownHosts, GitHubApp, HTTPProvider}
}

// What a credential may be used for.
const (
	AllowFetch = "fetch" // the default
	AllowPush  = "push"  // and fetch
)

// PutCredential is a request to store a credential.
type PutCredential struct {
	Kind    string `json:"kind"`
	Scope   string `json:"scope"`             // a URL: scheme and host, and any part of the path
	Subject string `json:"subject,omitempty"` // empty: for every subject
	User    string `json:"user,omitempty"`    // for HTTPS only
	Allow   string `json:"allow,omitempty"`   // empty: AllowFetch
	AppID   string `json:"app_id,omitempty"`  // for GitHubApp only: the app's ID, or its client ID
	API     string `json:"api,omitempty"`     // for GitHubApp only: the URL of the API; empty: that of the scope's host
	URL     string `json:"url,omitempty"`     // for HTTPProvider only: of the provider
	Secret  string `json:"secret"`
}

// Format hides the secret from all verbs.
func (p PutCredential) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "credential of kind %q for %q", p.Kind, p.Scope)
}

var _ fmt.Formatter = PutCredential{}

// Credential is a stored credential without its secret.
type Credential struct {
	Name    string `json:"name"`
	Kind    string `json:"kind,omitempty"`
	Scope   string `json:"scope,omitempty"` // normalized
	Subject string `json:"subject,omitempty"`
	User    string `json:"user,omitempty"`
	Allow   string `json:"allow,omitempty"` // AllowFetch or AllowPush
	AppID   string `json:"app_id,omitempty"`
	// Provider is the URL that is asked for secrets, for a kind that has a provider.
	Provider string `json:"provider,omitempty"`
	// ExpiresAt is when the secret ends that the provider gave last, while it is held.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Failed says why the provider gave no secret when it was asked last.
	Failed string `json:"failed,omitempty"`
	// Fingerprints are those of an ssh key, of a known host's keys, or of an app's key:
	// SHA256:...
	Fingerprints []string `json:"fingerprints,omitempty"`
	// Problem says why it is not used. All but Name is empty then.
	Problem string `json:"problem,omitempty"`
}

// PutCredential stores a credential, and replaces any of that name.
func (c *Client) PutCredential(ctx context.Context, name string, p PutCredential) error {
	return c.call(ctx, http.MethodPut, "/v1/credentials/"+segment(name), p, nil)
}

// Credentials lists the credentials, by name.
func (c *Client) Credentials(ctx context.Context, f Filter) ([]Credential, error) {
	return list[Credential](ctx, c, "credentials", f.query())
}

// RemoveCredential deletes a credential. If there is none, the error is an *Error with the
// status 404.
func (c *Client) RemoveCredential(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/credentials/"+segment(name), nil, nil)
}
