package credential

import "crypto/rand"

// lentPrefix begins the name of a lent credential. A name that a user may choose has no
// colon.
const lentPrefix = "lent:"

// Lend holds a credential in memory until Return, for a front end that gets secrets with its
// requests. It is checked as by Put, and c.Name is not used. It is found by the name that
// Lend returns alone, which nobody can guess and no List has; it is never on disk. A
// KnownHosts credential can't be lent, because it is not found by its name.
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
	s.replace(e.Name, &e)
	return e.Name, nil
}

// Return forgets a credential that was lent, with the secrets that a provider gave for it.
// An unknown name, or one that was put, is not an error.
func (s *Store) Return(name string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if e := (*s.entries.Load())[name]; e != nil && e.lent {
		s.replace(name, nil)
	}
}
