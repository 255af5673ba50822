package credential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/volume"
)

// Match is the credential and the known hosts for a URL. The zero Match reads a public
// repository.
type Match struct {
	Name string // of the credential, for logs; empty without one
	// Kind is HTTPS, Bearer or SSHKey; empty without a credential. From Store.Match it may
	// be one that renews.
	Kind   Kind
	User   string // only for HTTPS
	Secret Secret // the password or token; for SSHKey the key file's content; empty for a kind that renews
	Scope  string // of the credential, normalized, for logs
	// KnownHosts are the lines of known_hosts for the URL's host, also without a
	// credential.
	KnownHosts string

	// Owner, if not empty, names whose secret it is, and stays the same when the secret is
	// renewed. Nobody else has it.
	Owner string
	// Repository is the URL of the only repository that a renewed secret is for.
	Repository string
	Expires    time.Time // the end of a renewed secret; else zero
	// Held says that a renewed secret was asked for by an earlier call, so that the remote
	// may refuse it by now: then ask with Request.Refused.
	Held bool
}

// Match returns which credential is for access to u on behalf of subject; Obtain also
// returns the secrets of those that renew. Call it again before a secret is sent to another
// URL: a submodule's, an LFS server's, or the target of a redirect.
//
// With a name it returns that credential, or an error that says why it can't be used.
// With an empty name it returns the one with the longest path in its scope; among those
// it prefers one of the subject to one for every subject, then one whose scope names the
// ssh user, then the first by name. If none fits, that is not an error. With the access
// Push, it returns only credentials that allow it, and an error if only others fit.
func (s *Store) Match(u volume.URL, subject volume.Subject, name string, access Access) (Match, error) {
	m, _, err := s.match(u, subject, name, access)
	return m, err
}

// match does what Match does, and returns the entry of the credential; nil without one.
func (s *Store) match(u volume.URL, subject volume.Subject, name string, access Access) (m Match, chosen *entry, err error) {
	entries := *s.entries.Load()
	url := scopeOf(u)
	var fit, fetchOnly, hosts []*entry
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		switch {
		case e.info.Problem != "" || e.lent || !e.scope.covers(url) || !e.isFor(subject):
		case e.Kind == KnownHosts:
			hosts = append(hosts, e)
		case !e.allows(access):
			fetchOnly = append(fetchOnly, e)
		default:
			fit = append(fit, e)
		}
	}
	switch {
	case name != "":
		chosen = entries[name]
		err = chosen.refuses(u, subject, name, access)
	case len(fit) > 0:
		chosen = slices.MinFunc(fit, better)
	case len(fetchOnly) > 0:
		err = slices.MinFunc(fetchOnly, better).mayOnlyFetch()
	}
	if err != nil {
		return Match{}, nil, err
	}
	if chosen != nil {
		m = chosen.match(u, subject, access)
	}
	for _, e := range hosts {
		m.KnownHosts += e.knownHosts
	}
	return m, chosen, nil
}

func (e *entry) isFor(subject volume.Subject) bool { return e.Subject == "" || e.Subject == subject }

func (e *entry) allows(access Access) bool { return access == Fetch || e.Allow == Push }

func (e *entry) mayOnlyFetch() error {
	return fmt.Errorf("credential %q may only fetch: store it again with allow %q (docker repos credentials put --allow push), or name another one", e.Name, Push)
}

func (e *entry) match(u volume.URL, subject volume.Subject, access Access) Match {
	m := Match{Name: e.Name, Kind: e.Kind, User: e.User, Scope: e.info.Scope}
	if !e.Kind.Renews() {
		m.Secret = e.Secret
		return m
	}
	k := e.key(u, subject, access)
	m.Repository = k.repository
	m.Owner = fmt.Sprintf("%d %s %q", k.serial, k.access, k.subject)
	return m
}

// refuses returns why the credential that was named can't be used for u. It checks the
// subject first, so that other subjects learn nothing else about it.
func (e *entry) refuses(u volume.URL, subject volume.Subject, name string, access Access) error {
	switch {
	case e == nil:
		return &NotFoundError{name}
	case e.info.Problem != "":
		return fmt.Errorf("credential %q can't be used: %s", shownName(name), e.info.Problem)
	case !e.isFor(subject):
		return fmt.Errorf("credential %q is not for the subject %.80q: name another one, or none", shownName(name), subject)
	case e.Kind == KnownHosts:
		return fmt.Errorf("credential %q holds known hosts, which are used without being named: name a key, or none", name)
	case !e.scope.covers(scopeOf(u)):
		return fmt.Errorf("credential %q is for %s, and is not sent to %s: name another one, or none", shownName(name), e.scope, u)
	case !e.allows(access):
		return e.mayOnlyFetch()
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
