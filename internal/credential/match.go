package credential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/helmdeck/repos/internal/volume"
)

// Match is what a URL is read with. The zero Match reads a public repository.
type Match struct {
	Name   string // of the credential, for logs; empty if there is none
	Kind   Kind   // HTTPS, Bearer, SSHKey, or empty if there is none
	User   string // of HTTPS
	Secret Secret // the password or token; of SSHKey the content of its file
	Scope  string // of the credential, normalized, for logs
	// KnownHosts are lines of a known_hosts file about the URL's host. They
	// come with or without a credential.
	KnownHosts string
}

// Match returns what u is to be read with on behalf of subject. It is asked again
// before a secret is sent anywhere but to u: to a submodule, an LFS server, or where a
// redirect leads.
//
// With a name it is that credential, or an error that says why it can't be. With
// an empty name it is the one with the longest path in its scope; of those, one
// of the subject before one for every subject, one whose scope names the ssh user
// before one that does not, and then the first by name. None is no error.
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

// refuses says why a credential that was named is not for u. The subject comes
// first: whose it is not is told nothing else about it.
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

// better is negative if a is to be taken rather than b, and 0 if it is all the
// same. Both cover the same URL, so that the longer path is the closer one.
func better(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(len(b.scope.path), len(a.scope.path)),
		cmp.Compare(len(b.Subject), len(a.Subject)), // the same, or empty
		cmp.Compare(len(b.scope.user), len(a.scope.user)),
	)
}
