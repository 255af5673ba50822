package credential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/helmdeck/repos/internal/volume"
)

// Match is the credential and the known hosts for a URL. The zero Match reads a public
// repository.
type Match struct {
	Name   string // of the credential, for logs; empty without one
	Kind   Kind   // HTTPS, Bearer or SSHKey; empty without a credential
	User   string // only for HTTPS
	Secret Secret // the password or token; for SSHKey the key file's content
	Scope  string // of the credential, normalized, for logs
	// KnownHosts are the lines of known_hosts for the URL's host, also without a
	// credential.
	KnownHosts string
}

// Match returns how to read u on behalf of subject. Call it again before a secret is sent
// to another URL: a submodule's, an LFS server's, or the target of a redirect.
//
// With a name it returns that credential, or an error that says why it can't be used.
// With an empty name it returns the one with the longest path in its scope; among those
// it prefers one of the subject to one for every subject, then one whose scope names the
// ssh user, then the first by name. If none fits, that is not an error.
func (s *Store) Match(u volume.URL, subject volume.Subject, name string) (Match, error) {
	entries := *s.entries.Load()
	url := scopeOf(u)
	var fit, hosts []*entry
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		switch {
		case e.info.Problem != "" || !e.scope.covers(url) || !e.isFor(subject):
		case e.Kind == KnownHosts:
			hosts = append(hosts, e)
		default:
			fit = append(fit, e)
		}
	}
	var m Match
	if name != "" {
		e := entries[name]
		if err := e.refuses(u, subject, name); err != nil {
			return Match{}, err
		}
		m = e.match()
	} else if len(fit) > 0 {
		m = slices.MinFunc(fit, better).match()
	}
	for _, e := range hosts {
		m.KnownHosts += e.knownHosts
	}
	return m, nil
}

func (e *entry) isFor(subject volume.Subject) bool { return e.Subject == "" || e.Subject == subject }

func (e *entry) match() Match {
	return Match{Name: e.Name, Kind: e.Kind, User: e.User, Secret: e.Secret, Scope: e.info.Scope}
}

// refuses returns why the credential that was named can't be used for u. It checks the
// subject first, so that other subjects learn nothing else about it.
func (e *entry) refuses(u volume.URL, subject volume.Subject, name string) error {
	switch {
	case e == nil:
		return &NotFoundError{name}
	case e.info.Problem != "":
		return fmt.Errorf("credential %q can't be used: %s", name, e.info.Problem)
	case !e.isFor(subject):
		return fmt.Errorf("credential %q is not for the subject %.80q: name another one, or none", name, subject)
	case e.Kind == KnownHosts:
		return fmt.Errorf("credential %q holds known hosts, which are used without being named: name a key, or none", name)
	case !e.scope.covers(scopeOf(u)):
		return fmt.Errorf("credential %q is for %s, and is not sent to %s: name another one, or none", name, e.scope, u)
	}
	return nil
}

// better is negative if a is preferred to b, and 0 if neither is. Both cover the same
// URL, so the longer path is the closer one.
func better(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(len(b.scope.path), len(a.scope.path)),
		cmp.Compare(len(b.Subject), len(a.Subject)), // equal subjects, or empty
		cmp.Compare(len(b.scope.user), len(a.scope.user)),
	)
}
