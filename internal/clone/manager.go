package clone

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Config configures a Manager.
type Config struct {
	Root   string // the data directory
	DB     *meta.DB
	Trash  *trash.Trash
	Log    *logrus.Logger
	Now    func() time.Time
	Layers *layer.Store // of the data directory
	Work   *work.Group  // runs work in the background
	Git    *git.Git
	// Schemes are the allowed schemes of the URLs of submodules.
	Schemes volume.Schemes
	// SubmodulesAsWritten is that of tree.Common.
	SubmodulesAsWritten bool
	// Credentials returns the credential of a name for a URL and a subject or, without a
	// name, the one whose scope fits best. Nil without an error means none. Without the
	// function there are no credentials.
	Credentials func(ctx context.Context, url string, s volume.Subject, name string) (*git.Auth, error)
	// CredentialChanges counts the changes of stored credentials. It may be nil.
	CredentialChanges func() int64
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
	// AskTimeout is how long a remote may take to say where a ref is, the setting ASK_TIMEOUT. Zero means 20 s: less
	// than the 30 s that the engine waits for a Mount after a plain `docker plugin enable`,
	// so that the user sees our error and not the engine's.
	AskTimeout time.Duration
}

const defaultAskTimeout = 20 * time.Second

// Manager holds all clones. It is safe for concurrent use.
type Manager struct {
	config   Config
	measures chan struct{} // wakes Measure
	trees    *tree.Common
	// deepenings has the slots of deepenSoon.
	deepenings *work.Scheduler
	// listings has the slots of remote.Config.Listings.
	listings *work.Scheduler

	mu         sync.Mutex
	clones     map[string]*Clone
	unmeasured map[*Clone]map[string]bool // names of stores to measure, besides new layers
	oldCaches  sync.Once                  // logs that there were some
}

// NewManager returns a Manager of the clones in state. The caller runs Measure.
func NewManager(c Config, state meta.State) (*Manager, error) {
	if err := os.MkdirAll(place.Clones(c.Root), 0o755); err != nil {
		return nil, err
	}
	c.AskTimeout = cmp.Or(c.AskTimeout, defaultAskTimeout)
	if c.Credentials == nil {
		c.Credentials = func(context.Context, string, volume.Subject, string) (*git.Auth, error) { return nil, nil }
	}
	m := &Manager{
		config: c, clones: make(map[string]*Clone),
		measures: make(chan struct{}, 1), unmeasured: make(map[*Clone]map[string]bool),
		trees:      &tree.Common{Schemes: c.Schemes, SubmodulesAsWritten: c.SubmodulesAsWritten},
		deepenings: work.NewScheduler([3]work.Limits{work.Fetch: deepenings}),
		listings:   work.NewScheduler([3]work.Limits{work.Question: remote.Listings}),
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
	man, err := readManifest(place.Clone(m.config.Root, key))
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
	c := &Clone{
		Key: rec.Key, Dir: place.Clone(m.config.Root, rec.Key), Subject: volume.Subject(rec.Subject), m: m,
		layers: m.config.Layers.Set(rec.Key),
		used: &work.Resource{
			Group: m.config.Work, Name: "clone " + rec.Key, Subject: rec.Subject, Gone: ErrEvicted,
			Report: func(err error) { m.config.Log.WithField("clone", rec.Key).Error(err) },
		},
	}
	log := remote.Log{Logger: m.config.Log, Clone: rec.Key}
	c.remote = remote.New(remote.Config{
		Dir: c.Dir, Used: c.used, Git: m.config.Git, Trash: m.config.Trash, Log: log, Now: m.config.Now,
		AskTimeout: m.config.AskTimeout, Listings: m.listings,
		Credential: func(ctx context.Context, url, name string) (*git.Auth, error) {
			return m.config.Credentials(ctx, url, c.Subject, name)
		},
		CredentialChanges: m.config.CredentialChanges, WithRoom: c.WithRoom,
		MakeDir: c.makeDir, SyncDir: c.syncDir, RemoveDir: c.removeDir,
		Save: func() error { return c.save() }, Measure: c.measureSoon,
	}, rec.Stores)
	c.Trees = tree.New(m.trees, tree.Config{
		Repo: c.remote, Dir: c.Dir, Layers: c.layers, Used: c.used, Git: m.config.Git, Log: log, Now: m.config.Now,
		Doing: &c.remote.Doing, WithRoom: c.WithRoom, Measure: c.measureSoon, Submodule: c.openSubmodule,
	})
	rec.Stores = nil
	c.rec, c.noted = rec, rec.Used
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
	if err = sub.Sweep(ctx); err == nil && work.JobOf(ctx).Yields() && !sub.remote.Fetched() {
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

// Sync makes durable what the clones had before the call. See layer.Store.
func (m *Manager) Sync(ctx context.Context) error { return m.config.Layers.Sync(ctx) }

// all returns all known clones.
func (m *Manager) all() []*Clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.clones))
}
