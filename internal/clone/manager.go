package clone

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// Config configures a Manager.
type Config struct {
	*layer.Store
	Work *work.Group // runs work in the background
	Git  *git.Git
	// Schemes are the allowed schemes of the URLs of submodules.
	Schemes volume.Schemes
	// Credentials returns the credential of a name for a URL and a subject or, without a
	// name, the one whose scope fits best. Nil without an error means none. Without the
	// function there are no credentials.
	Credentials func(ctx context.Context, url string, s volume.Subject, name string) (*git.Auth, error)
	// MakeRoom is called when a fetch, a build or a mount has found the disk full. Its
	// leftovers are in the trash, and if MakeRoom succeeds it is tried again. need is its
	// size; zero if unknown. The error says how much is missing and what of the subject's
	// own takes it, and names no other subject. Nil makes no room.
	MakeRoom func(ctx context.Context, subject string, need disk.Size) error
	// AwaitRoom is called instead if only git's words say so, because a remote can send them.
	// While the disk is nearly full, it waits until the trash has freed some space. It evicts
	// nothing. If it is nil, the work is not tried again.
	AwaitRoom func(ctx context.Context) error
	// Measured, if not nil, is called after something was measured that a fetch or a build
	// made. It must not block.
	Measured func()
	// AskTimeout is how long a remote may take to say where a ref is. Zero means 20 s: less
	// than the 30 s that the engine waits for a Mount after a plain `docker plugin enable`,
	// so that the user sees our error and not the engine's.
	AskTimeout time.Duration
}

const defaultAskTimeout = 20 * time.Second

// Manager holds all clones. It is safe for concurrent use.
type Manager struct {
	Config
	measures chan struct{} // wakes Measure
	trees    *tree.Shared
	// deepenings has the slots of deepenSoon.
	deepenings *work.Scheduler

	mu         sync.Mutex
	clones     map[string]*Clone
	unmeasured map[*Clone]map[string]bool // names of stores to measure, besides new layers
}

// NewManager returns a Manager of the clones in state. The caller runs Measure.
func NewManager(c Config, state meta.State) (*Manager, error) {
	for _, dir := range []string{"clones", "locks"} {
		if err := os.MkdirAll(filepath.Join(c.Root, dir), 0o755); err != nil {
			return nil, err
		}
	}
	c.AskTimeout = cmp.Or(c.AskTimeout, defaultAskTimeout)
	if c.Credentials == nil {
		c.Credentials = func(context.Context, string, volume.Subject, string) (*git.Auth, error) { return nil, nil }
	}
	m := &Manager{
		Config: c, clones: make(map[string]*Clone), measures: make(chan struct{}, 1), unmeasured: make(map[*Clone]map[string]bool),
		trees: &tree.Shared{Schemes: c.Schemes}, deepenings: work.NewScheduler([3]work.Limits{work.Fetch: deepenings}),
	}
	for _, rec := range state.Clones {
		m.get(rec)
	}
	for _, layers := range []map[string]meta.Layer{state.Trees, state.GitLayers} {
		for _, l := range layers {
			// A clone without a record may still have workspaces. One without a manifest
			// has nothing on disk.
			_, _ = m.open(l.Clone)
		}
	}
	return m, nil
}

// open returns the clone of a key, which its manifest describes if it is unknown.
func (m *Manager) open(key string) (*Clone, error) {
	if c := m.Lookup(key); c != nil {
		return c, nil
	}
	man, err := readManifest(filepath.Join(m.Root, "clones", key))
	if err != nil {
		return nil, err
	}
	return m.get(meta.Clone{Key: key, Subject: man.Subject, Repo: man.Repo}), nil
}

// Key returns the key of the clone of a repository for a subject.
func Key(s volume.Subject, u volume.URL) string { return s.Dir() + "/" + u.Hash() }

// Get returns the clone of a repository for a subject, without I/O. It may not exist on
// disk yet.
func (m *Manager) Get(s volume.Subject, u volume.URL) *Clone {
	return m.get(meta.Clone{Key: Key(s, u), Subject: string(s), Repo: u.Normalized()})
}

// get returns the clone of rec, which becomes its record if the clone is new.
func (m *Manager) get(rec meta.Clone) *Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.clones[rec.Key]; ok {
		return c
	}
	log := m.Log.WithField("clone", rec.Key)
	c := &Clone{
		Key: rec.Key, Dir: filepath.Join(m.Root, "clones", rec.Key), Subject: volume.Subject(rec.Subject), m: m, layers: m.Set(rec.Key),
		used: &work.Resource{
			Group: m.Work, Name: "clone " + rec.Key, Subject: rec.Subject, Gone: ErrEvicted, Report: func(err error) { log.Error(err) },
		},
	}
	c.Remote = remote.New(remote.Config{
		Dir: c.Dir, LockFile: filepath.Join(m.Root, "locks", strings.ReplaceAll(c.Key, "/", ".")+".lock"),
		Used: c.used, Git: m.Git, Trash: m.Trash, Log: log, Now: m.Now, AskTimeout: m.AskTimeout,
		Credential: func(ctx context.Context, url, name string) (*git.Auth, error) {
			return m.Credentials(ctx, url, c.Subject, name)
		},
		WithRoom: c.WithRoom, MakeDir: c.makeDir, SyncDir: c.syncDir, RemoveDir: c.removeDir, Save: func() error { return c.save() }, Measure: c.measureSoon,
	}, rec.Stores)
	c.Trees = tree.New(m.trees, c.Remote, c.layers, c.openSubmodule)
	rec.Stores = nil
	c.rec = rec
	m.clones[rec.Key] = c
	return c
}

// openSubmodule returns the trees of a submodule's repository for the same subject. Work in
// advance makes no clone, so its error is ErrEvicted if there is none.
func (c *Clone) openSubmodule(ctx context.Context, u volume.URL) (trees *tree.Collection, release func(), err error) {
	sub := c.m.Get(c.Subject, u)
	if release, err = sub.Use(ctx); err != nil {
		return nil, nil, err
	}
	if err = sub.Sweep(ctx); err == nil && work.PartyOf(ctx).Yields() && !sub.Remote.Fetched() {
		err = ErrEvicted
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return sub.Trees, release, nil
}

// Lookup returns the clone of a key, or nil if it is unknown.
func (m *Manager) Lookup(key string) *Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clones[key]
}

// all returns all known clones.
func (m *Manager) all() []*Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.clones))
}
