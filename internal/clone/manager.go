package clone

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Config is what a Manager works with.
type Config struct {
	*layer.Store // whose Run it calls
	// Work is all that is done in the background. Close ends it.
	Work *work.Group
	Git  *git.Git
	// Schemes are those that a submodule's URL may have, as a user's.
	Schemes volume.Schemes
	// LookupHost returns the addresses of a submodule's or an LFS server's host; nil
	// asks the machine's name servers.
	LookupHost func(ctx context.Context, host string) ([]netip.Addr, error)
	// Credentials returns what to show to a URL for a subject: the credential of
	// a name, or, without one, that whose scope fits best. Nil, nil is none.
	Credentials func(url string, s volume.Subject, name string) (*git.Auth, error)
	// Evicting are called when a clone is evicted, to take what others know of it out
	// of memory. They return what deletes their records, but those of layers, in the
	// same transaction and as often as that is tried, and what undoes the first if it
	// fails.
	Evicting []func(key string) (del func(*meta.Tx) error, undo func())
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
	// measures has measureClones look at unmeasured.
	measures chan struct{}
	trees    *tree.Shared

	mu         sync.Mutex
	clones     map[string]*Clone
	unmeasured map[*Clone]bool // have something that is to be measured
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
		Config: c, clones: make(map[string]*Clone), measures: make(chan struct{}, 1), unmeasured: make(map[*Clone]bool),
		trees: &tree.Shared{Schemes: c.Schemes, LookupHost: c.LookupHost},
	}
	for _, rec := range state.Clones {
		m.get(rec)
	}
	for _, layers := range []map[string]meta.Layer{state.Trees, state.GitLayers} {
		for _, l := range layers {
			m.learn(l.Clone)
		}
	}
	m.Background(m.Run)
	m.Background(m.measureClones)
	return m, nil
}

// learn has Lookup find the clone of layers that the database has, also one without a
// record: workspaces may stand on them still. It does not when there is nothing on
// disk.
func (m *Manager) learn(key string) {
	if m.Lookup(key) != nil {
		return
	}
	if man, err := readManifest(filepath.Join(m.Root, "clones", key)); err == nil {
		m.get(meta.Clone{Key: key, Subject: man.Subject, Repo: man.Repo})
	}
}

// Close ends the work in the background and waits for it. None begins after it.
func (m *Manager) Close() { m.Work.Close() }

// Key returns the key of the clone of a repository for a subject.
func Key(s volume.Subject, u volume.URL) string { return s.Dir() + "/" + u.Hash() }

// Get returns the clone of a repository for a subject, which may not exist on
// disk yet. It does no I/O.
func (m *Manager) Get(s volume.Subject, u volume.URL) *Clone {
	return m.get(meta.Clone{Key: Key(s, u), Subject: string(s), Repo: u.Normalized()})
}

// get returns the clone that rec is of; rec is its record if it is new.
func (m *Manager) get(rec meta.Clone) *Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.clones[rec.Key]; ok {
		return c
	}
	log := m.Log.WithField("clone", rec.Key)
	c := &Clone{
		Key: rec.Key, Dir: filepath.Join(m.Root, "clones", rec.Key), Subject: volume.Subject(rec.Subject), m: m, layers: m.Set(rec.Key),
		changed: make(map[string]bool),
		used: &work.Resource{
			Group: m.Work, Name: "clone " + rec.Key, Subject: rec.Subject, Gone: errEvicted, Report: func(err error) { log.Error(err) },
		},
	}
	c.Remote = remote.New(remote.Config{
		Dir: c.Dir, LockFile: filepath.Join(m.Root, "locks", strings.ReplaceAll(c.Key, "/", ".")+".lock"),
		Used: c.used, Git: m.Git, Trash: m.Trash, Log: log, Now: m.Now, AskTimeout: m.AskTimeout,
		Credential: c.credential, WithRoom: c.WithRoom, MakeDir: c.makeDir, RemoveDir: c.removeDir, Save: func() error { return c.save() }, Measure: c.measureSoon,
	}, rec.Stores)
	c.Trees = tree.New(m.trees, c.Remote, c.layers, c.openSubmodule)
	rec.Stores = nil
	c.rec = rec
	m.clones[rec.Key] = c
	return c
}

// openSubmodule returns the trees of the repository of a submodule, for the same subject.
func (c *Clone) openSubmodule(ctx context.Context, u volume.URL) (trees *tree.Collection, release func(), err error) {
	sub := c.m.Get(c.Subject, u)
	if release, err = sub.Use(ctx); err != nil {
		return nil, nil, err
	}
	if err := sub.Sweep(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return sub.Trees, release, nil
}

// credential returns what to show to a URL for the clone's subject.
func (c *Clone) credential(url, name string) (*git.Auth, error) {
	if c.m.Credentials == nil {
		return nil, nil
	}
	return c.m.Credentials(url, c.Subject, name)
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
