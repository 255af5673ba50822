package csi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
)

// Lender keeps the credentials that come with calls, in memory. *credential.Store
// implements it.
type Lender interface {
	// Lend returns the name by which alone a credential is found, until Return.
	Lend(c credential.Credential) (name string, err error)
	Return(name string)
}

// The keys of the secret of nodePublishSecretRef: those of Kubernetes' own types basic-auth
// and ssh-auth, and token.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyToken    = "token"
	keySSH      = "ssh-privatekey"
)

var secretKeys = []string{keyUsername, keyPassword, keyToken, keySSH}

// defaultUser is for a token without a user: servers that take tokens as passwords do not
// look at the user, but want one.
const defaultUser = "x-access-token"

// parseSecret returns the credential in the secret of a call, for its volume's URL and its
// pod's subject alone. ok is false without a secret. No error has a value of the secret.
func parseSecret(secrets, options map[string]string) (c credential.Credential, ok bool, err error) {
	if len(secrets) == 0 {
		return credential.Credential{}, false, nil
	}
	for _, key := range slices.Sorted(maps.Keys(secrets)) {
		if !slices.Contains(secretKeys, key) {
			return c, false, failf(codes.InvalidArgument, "the secret has the key %.80q; allowed are %s", key, strings.Join(secretKeys, ", "))
		}
	}
	if options["credential"] != "" {
		return c, false, failf(codes.InvalidArgument, "the volume has a secret and the attribute credential: leave one out")
	}
	url := options["repo"]
	if url == "" {
		url = options["url"]
	}
	c = credential.Credential{Scope: url, Subject: volume.Subject(options["subject"])}
	password, token, key := secrets[keyPassword], secrets[keyToken], secrets[keySSH]
	switch {
	case key != "" && password == "" && token == "":
		c.Kind, c.Secret = credential.SSHKey, credential.NewSecret(key)
	case key == "" && (password == "") != (token == ""):
		c.Kind, c.Secret, c.User = credential.HTTPS, credential.NewSecret(password+token), secrets[keyUsername]
		if c.User == "" && token != "" {
			c.User = defaultUser
		}
	default:
		return c, false, failf(codes.InvalidArgument, "the secret must have one of the keys %s, %s and %s", keyPassword, keyToken, keySSH)
	}
	return c, true, nil
}

// lend returns a context in which the volume uses the secret of the call, which stays in
// memory until giveBack.
func (d *Driver) lend(ctx context.Context, c call) (context.Context, error) {
	cred, ok, err := parseSecret(c.secrets, c.options)
	if !ok || err != nil {
		return ctx, err
	}
	name, err := d.config.Lend.Lend(cred)
	if err != nil {
		return ctx, failf(codes.InvalidArgument, "the secret of the volume: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent[c.target.Path()] = name
	return verbs.WithCredential(ctx, name), nil
}

// giveBack forgets the secret of a publication.
func (d *Driver) giveBack(p meta.Publication) {
	d.mu.Lock()
	name, ok := d.lent[p.Target]
	delete(d.lent, p.Target)
	d.mu.Unlock()
	if ok {
		d.config.Lend.Return(name)
	}
}
