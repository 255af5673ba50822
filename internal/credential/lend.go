package credential

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// lentPrefix begins the name of a lent credential. A name that a user may choose has no
// colon.
const lentPrefix = "lent:"

// lentFrom is where the front end that lends credentials gets them: the field of a pod's volume.
const lentFrom = "nodePublishSecretRef"

// isLent reports whether a name is that of a lent credential.
func isLent(name string) bool { return strings.HasPrefix(name, lentPrefix) }

// shownName returns the name of a credential for errors. For a lent one it is where its lender got it, because its own name
// says nothing to a reader, and is another one after each Return.
func shownName(name string) string {
	if isLent(name) {
		return lentFrom
	}
	return name
}

// Refused says in an error that a remote refused a stored or lent credential.
func Refused(name string) string {
	if isLent(name) {
		return fmt.Sprintf("the remote refused the pod's secret (%s)", lentFrom)
	}
	return fmt.Sprintf("the remote refused the stored credential %q", name)
}

// Lend holds a credential in memory until Return, for a front end that gets secrets with its
// requests. It is checked as by Put, and c.Name is not used. It is found by the name that
// Lend returns alone, which nobody can guess and no List has; it is never on disk. A
// KnownHosts credential can't be lent, because it is not found by its name.
//
// The same credential that is lent again has the same name, so that what needs it is done
// once for all of them; it is held until it was returned as often.
func (s *Store) Lend(c Credential) (name string, err error) {
	if c.Kind == KnownHosts {
		return "", invalid("kind", "%s can't be lent: put it", KnownHosts)
	}
	c.Name = "lent"
	e, err := c.normalize().check()
	if err != nil {
		return "", err
	}
	e.Name, e.lent = lentPrefix+rand.Text(), true
	e.info.Name = e.Name
	s.writing.Lock()
	defer s.writing.Unlock()
	for name, old := range *s.entries.Load() {
		if old.lent && old.sameAs(e) {
			s.lendings[name]++
			return name, nil
		}
	}
	s.lendings[e.Name] = 1
	s.replace(e.Name, &e)
	return e.Name, nil
}

// Return forgets a credential that was lent, if nobody else has it, with the secrets that a provider gave for it.
// An unknown name, or one that was put, is not an error.
func (s *Store) Return(name string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := (*s.entries.Load())[name]
	if e == nil || !e.lent {
		return
	}
	if s.lendings[name]--; s.lendings[name] == 0 {
		delete(s.lendings, name)
		s.replace(name, nil)
	}
}

// sameAs reports whether two entries are the same but for their names.
func (e *entry) sameAs(other entry) bool {
	a, b := e.Credential, other.Credential
	if a.Secret.Reveal() != b.Secret.Reveal() {
		return false
	}
	a.Name, a.Secret, b.Name, b.Secret = "", Secret{}, "", Secret{}
	return a == b
}
