package clone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/singleflight"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/volume"
)

// Config is what a Manager works with.
type Config struct {
	Root  string // the data directory
	Boot  string // the kernel's boot ID
	DB    *meta.DB
	Git   *git.Git
	Trash *trash.Trash
	Log   *logrus.Logger
	Now   func() time.Time
	// Schemes are those that a submodule's URL may have, as a user's.
	Schemes volume.Schemes
	// LookupHost returns the addresses of a submodule's or an LFS server's host; nil
	// asks the machine's name servers.
	LookupHost func(ctx context.Context, host string) ([]netip.Addr, error)
	// Credentials returns what to show to a URL for a subject: the credential of
	// a name, or, without one, that whose scope fits best. Nil, nil is none.
	Credentials func(url string, s volume.Subject, name string) (*git.Auth, error)
	// Evicting are called when a clone is evicted, to take what others know of it out
	// of memory. They return what that takes in the clone's directory, what deletes
	// their records, in the same transaction and as often as that is tried, and what
	// undoes the first if it fails.
	Evicting []func(key string) (size disk.Size, del func(*meta.Tx) error, undo func())
	// MakeRoom is called when the disk was full in a fetch, a build or a mount, and
	// what was left half is in the trash: the work is done again if it succeeds. need
	// is what it takes, as far as that is known. Its error says how much is missing
	// and what of the subject's holds it, and names no other. Nil makes no room.
	MakeRoom func(ctx context.Context, subject string, need disk.Size) error
	// Measured is called when something was measured that a fetch or a build made.
	// It must not block. Nil is not called.
	Measured func()
	// AskTimeout is how long a remote may take to say where a ref stands. Zero is
	// 20 s: below the 30 s that the engine waits for a Mount after a plain
	// `docker plugin enable`, so that the user reads our error and not the engine's.
	AskTimeout time.Duration
}

const defaultAskTimeout = 20 * time.Second

// Manager holds all clones. It is safe for concurrent use.
type Manager struct {
	Config
	ctx     context.Context // of the work in the background
	stop    context.CancelFunc
	work    sync.WaitGroup
	flights singleflight.Group
	syncs   chan struct{}
	rounds  syncRounds
	// measures has measureClones look at unmeasured.
	measures chan struct{}
	// flattening is held by the one that flattens a tree.
	flattening  chan struct{}
	flattenAt   int   // the constants; smaller ones in tests
	flattenFrom int64 // likewise

	mu         sync.Mutex
	clones     map[string]*Clone
	unmeasured map[*Clone]bool // have something that is to be measured
	closed     bool
}

// NewManager returns a Manager for what state says exists.
func NewManager(c Config, state meta.State) (*Manager, error) {
	for _, dir := range []string{"clones", "locks"} {
		if err := os.MkdirAll(filepath.Join(c.Root, dir), 0o755); err != nil {
			return nil, err
		}
	}
	c.AskTimeout = cmp.Or(c.AskTimeout, defaultAskTimeout)
	m := &Manager{
		Config: c, clones: make(map[string]*Clone), syncs: make(chan struct{}, 1),
		measures: make(chan struct{}, 1), unmeasured: make(map[*Clone]bool),
		flattening: make(chan struct{}, 1), flattenAt: flattenAt, flattenFrom: flattenFrom,
	}
	m.rounds.token = make(chan struct{}, 1)
	m.ctx, m.stop = context.WithCancel(context.Background())
	for key, rec := range state.Clones {
		for name, store := range rec.Stores {
			if store.Refs == nil { // none, as the database has it
				store.Refs = make(map[string]meta.Resolution)
				rec.Stores[name] = store
			}
		}
		m.get(key, volume.Subject(rec.Subject), rec.Repo).rec = &rec
	}
	for _, l := range state.Trees {
		if c := m.known(l.Clone); c != nil {
			c.trees.known[l.ID] = l
		}
	}
	for _, l := range state.GitLayers {
		if c := m.known(l.Clone); c != nil {
			c.gitLayers.known[l.ID] = l
		}
	}
	m.work.Go(m.syncLayers)
	m.syncSoon() // what an earlier run has not come to
	m.work.Go(m.measureClones)
	return m, nil
}

// known returns the clone of a key that the database has, also one without a
// record: workspaces may stand on its layers still. It is nil when there is
// nothing on disk.
func (m *Manager) known(key string) *Clone {
	if c := m.Lookup(key); c != nil {
		return c
	}
	man, err := readManifest(filepath.Join(m.Root, "clones", key))
	if err != nil {
		return nil
	}
	return m.get(key, volume.Subject(man.Subject), man.Repo)
}

// Close ends the work in the background and waits for it. None begins after it.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
}

// enter counts work in the background until m.work.Done, unless the Manager is
// closed: the count must not rise while Close waits for it to fall.
func (m *Manager) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Add(1)
	return true
}

var errClosed = errors.New("the plugin is stopping: run it again")

// Key returns the key of the clone of a repository for a subject.
func Key(s volume.Subject, u volume.URL) string { return s.Dir() + "/" + u.Hash() }

// Get returns the clone of a repository for a subject, which may not exist on
// disk yet. It does no I/O.
func (m *Manager) Get(s volume.Subject, u volume.URL) *Clone {
	return m.get(Key(s, u), s, u.Normalized())
}

func (m *Manager) get(key string, s volume.Subject, repo string) *Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.clones[key]
	if !ok {
		dir := filepath.Join(m.Root, "clones", key)
		c = &Clone{
			m: m, key: key, dir: dir, subject: s, repo: repo, trees: newTrees(dir), gitLayers: newGitLayers(dir),
			gate: make(chan struct{}, 1), lfs: make(chan struct{}, 1), changed: make(map[string]bool), built: make(map[string]Spec), named: make(map[word]int),
		}
		m.clones[key] = c
	}
	return c
}

// Lookup returns the clone of a key that is known already, or nil.
func (m *Manager) Lookup(key string) *Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clones[key]
}

// all returns the clones that are in memory.
func (m *Manager) all() []*Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*Clone, 0, len(m.clones))
	for _, c := range m.clones {
		list = append(list, c)
	}
	return list
}

// Background runs f with a context that ends when the Manager is closed, and not
// at all after that.
func (m *Manager) Background(f func(ctx context.Context)) {
	if !m.enter() {
		return
	}
	go func() {
		defer m.work.Done()
		f(m.ctx)
	}()
}

// share runs f once for all who ask for the same key at the same time. It
// returns when f has, or when ctx ends; f goes on regardless.
func share[T any](ctx context.Context, m *Manager, key string, f func(ctx context.Context) (T, error)) (T, error) {
	answer := m.flights.DoChan(key, func() (v any, err error) {
		if !m.enter() {
			return nil, errClosed
		}
		defer m.work.Done()
		defer func() {
			if r := recover(); r != nil {
				m.Log.WithField("stack", string(debug.Stack())).Errorf("panic in %q: %v", key, r)
				err = fmt.Errorf("internal error: %v", r)
			}
		}()
		return f(m.ctx)
	})
	var none T
	select {
	case r := <-answer:
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(T), nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// tempDir makes a directory in which something of dir is built, to be renamed
// into being.
func tempDir(dir string) (string, error) {
	temp, err := os.MkdirTemp(dir, durable.TempPrefix+"*")
	if err != nil {
		return "", err
	}
	return temp, os.Chmod(temp, 0o755)
}

// exists reports whether path is there, without following a symlink.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
