package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/work"
)

const extension = ".json"

// record is a credential's file, the only form with the secret in clear text.
type record struct {
	Name string `json:"name"`
	Credential
	Secret string `json:"secret"` // hides that of Credential
}

// NotFoundError means that no credential has that name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no credential %.80q", shownName(e.Name))
}

// Store has the credentials of one directory, which no other Store may use. All methods
// may be called concurrently.
type Store struct {
	config   Config
	dir      string
	writing  sync.Mutex                        // held while the directory, entries and lendings change
	entries  atomic.Pointer[map[string]*entry] // replaced as a whole, never changed
	lendings map[string]int                    // how often each lent credential was lent and not returned
	changes  atomic.Int64                      // see Changes
	serials  atomic.Int64                      // the last of an entry
	tokens   tokens
}

// Config configures Open.
type Config struct {
	// Providers ask for the secrets of credentials that renew. Without its provider, such a
	// credential can be stored, but not used.
	Providers map[Kind]Provider
	// Work runs what is asked for several callers. It is required with Providers.
	Work *work.Group
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Report gets the panics of providers. It is required with Providers.
	Report func(error)
}

// Open makes the directory if it is missing, and reads it into memory. A file that can't
// be used is not an error: see Info.Problem.
func Open(dir string, c Config) (*Store, error) {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Store{config: c, dir: dir, tokens: newTokens(), lendings: make(map[string]int)}
	entries := make(map[string]*entry)
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		name, ok := strings.CutSuffix(f.Name(), extension)
		switch {
		case durable.IsTemp(f.Name()):
			// An interrupted Put left it, with a secret.
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		case ok && nameText.MatchString(name):
			e, err := load(path, f, name)
			if err != nil {
				e = entry{info: Info{Name: name, Problem: err.Error()}}
			}
			e.serial = s.serials.Add(1)
			entries[name] = &e
		}
	}
	s.entries.Store(&entries)
	return s, nil
}

func load(path string, f fs.DirEntry, name string) (entry, error) {
	if !f.Type().IsRegular() {
		return entry{}, fmt.Errorf("%s is not a regular file", path)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return entry{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return entry{}, err
	}
	var r record
	// The cause may repeat a part of the file.
	if json.Unmarshal(data, &r) != nil {
		return entry{}, fmt.Errorf("%s is damaged: store the credential again (docker repos credentials put)", path)
	}
	if r.Name != name {
		return entry{}, fmt.Errorf("%s is the file of another credential: store this one again (docker repos credentials put)", path)
	}
	r.Credential.Name, r.Credential.Secret = r.Name, NewSecret(r.Secret)
	e, err := r.Credential.check()
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// Put stores c on disk and replaces any credential of that name. The error is an
// *InvalidError if c is invalid; after any error nothing has changed.
func (s *Store) Put(c Credential) error {
	c = c.normalize()
	e, err := c.check()
	if err != nil {
		return err
	}
	data, err := json.Marshal(record{c.Name, c, c.Secret.Reveal()})
	if err != nil {
		return fmt.Errorf("encode credential %q: %w", c.Name, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := durable.WriteFile(s.path(c.Name), data, 0o600); err != nil {
		return err
	}
	s.replace(c.Name, &e)
	return nil
}

// Remove deletes a credential, also one whose file can't be used, and forgets the secrets
// that a provider gave for it. The error is a *NotFoundError for an unknown name.
func (s *Store) Remove(name string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if e := (*s.entries.Load())[name]; e == nil || e.lent {
		return &NotFoundError{name}
	}
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.replace(name, nil)
	return durable.SyncTree(s.dir)
}

// replace sets the entry of a name, or removes it, and forgets the secrets of the one
// before. The caller holds s.writing.
func (s *Store) replace(name string, e *entry) {
	entries := maps.Clone(*s.entries.Load())
	old := entries[name]
	if delete(entries, name); e != nil {
		e.serial = s.serials.Add(1)
		entries[name] = e
	}
	s.entries.Store(&entries)
	if e == nil || !e.lent {
		s.changes.Add(1)
	}
	if old != nil {
		s.tokens.forget(old.serial)
	}
}

// Changes returns how often credentials were put, removed or returned since Open. If it is
// the same as before, so are the credentials that could be used then. A secret that is
// renewed is no change.
func (s *Store) Changes() int64 { return s.changes.Load() }

// List returns all credentials that were put, sorted by name.
func (s *Store) List() []Info {
	entries := *s.entries.Load()
	list := make([]Info, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		if e.lent {
			continue
		}
		info := e.info
		info.Expires, info.Failed = s.tokens.state(e.serial, s.config.Now())
		info.Fingerprints = slices.Clone(info.Fingerprints)
		list = append(list, info)
	}
	return list
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name+extension) }
