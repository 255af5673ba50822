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

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/volume"
)

const extension = ".json"

// record is the file of a credential: the one form that has the secret in it.
type record struct {
	Name    string         `json:"name"`
	Kind    Kind           `json:"kind"`
	Scope   string         `json:"scope"`
	Subject volume.Subject `json:"subject,omitempty"`
	User    string         `json:"user,omitempty"`
	Secret  string         `json:"secret"`
}

// NotFoundError says that nothing is stored by a name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no credential %.80q", e.Name)
}

// Store is the credentials of one directory. All methods may be called
// concurrently; there is one Store for a directory.
type Store struct {
	dir     string
	writing sync.Mutex                        // held over changes on disk and of entries
	entries atomic.Pointer[map[string]*entry] // never changed, but replaced
}

// Open makes the directory if there is none, and reads it into memory. A file
// that can't be used is no error: see Info.Problem.
func Open(dir string) (*Store, error) {
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
	entries := make(map[string]*entry)
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		name, ok := strings.CutSuffix(f.Name(), extension)
		switch {
		case durable.IsTemp(f.Name()):
			// Of a Put that was interrupted, with a secret in it.
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		case ok && nameText.MatchString(name):
			e, err := load(path, f, name)
			if err != nil {
				e = entry{info: Info{Name: name, Problem: err.Error()}}
			}
			entries[name] = &e
		}
	}
	s := &Store{dir: dir}
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
		return entry{}, fmt.Errorf("%s is damaged: put the credential again", path)
	}
	if r.Name != name {
		return entry{}, fmt.Errorf("%s is the file of another credential: put this one again", path)
	}
	e, err := Credential{r.Name, r.Kind, r.Scope, r.Subject, r.User, NewSecret(r.Secret)}.check()
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// Put stores c on disk, in the place of what has its name. It is an
// *InvalidError if something is wrong with c; after any error all is as it was.
func (s *Store) Put(c Credential) error {
	if c.Kind == SSHKey && c.Secret.Reveal() != "" {
		c.Secret = NewSecret(keyFile(c.Secret.Reveal()))
	}
	e, err := c.check()
	if err != nil {
		return err
	}
	data, err := json.Marshal(record{c.Name, c.Kind, c.Scope, c.Subject, c.User, c.Secret.Reveal()})
	if err != nil {
		return fmt.Errorf("encode credential %q: %w", c.Name, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := durable.WriteFile(s.path(c.Name), data, 0o600); err != nil {
		return err
	}
	entries := maps.Clone(*s.entries.Load())
	entries[c.Name] = &e
	s.entries.Store(&entries)
	return nil
}

// Remove deletes a credential, also one whose file can't be used. It is a
// *NotFoundError if there is none.
func (s *Store) Remove(name string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	entries := maps.Clone(*s.entries.Load())
	if entries[name] == nil {
		return &NotFoundError{name}
	}
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(entries, name)
	s.entries.Store(&entries)
	return durable.SyncTree(s.dir)
}

// List returns what is stored, by name.
func (s *Store) List() []Info {
	entries := *s.entries.Load()
	list := make([]Info, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		info := entries[name].info
		info.Fingerprints = slices.Clone(info.Fingerprints)
		list = append(list, info)
	}
	return list
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name+extension) }
