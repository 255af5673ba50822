package warm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/keylock"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
)

// Config is what a Manager works with.
type Config struct {
	Root  string // the data directory
	Boot  string // the kernel's boot ID
	DB    *meta.DB
	Trash *trash.Trash
	Log   *logrus.Logger
	Now   func() time.Time
	// Background runs a function with a context that ends when the plugin does,
	// and waits for it then.
	Background func(func(ctx context.Context))
	// Use keeps a clone from being evicted until release is called.
	Use func(ctx context.Context, clone string) (release func(), err error)
	// Heavy waits until heavy work on a clone may run, and returns a context that ends
	// when it must be done. done is called at its end.
	Heavy func(ctx context.Context, clone, op string) (_ context.Context, done func(), err error)
	// Sync writes everything below the root to disk.
	Sync func(ctx context.Context) error
	// Wait is how long a Take waits for ends of workspaces that may move its heads.
	// Zero is 2 s: that of 50,000 files takes a quarter of it.
	Wait time.Duration
}

const defaultWait = 2 * time.Second

// Manager holds the warm layers of all clones. It is safe for concurrent use.
type Manager struct {
	Config
	// moving is held, by clone, while heads move and layers come and go:
	// directories, records and memory together.
	moving keylock.Locks[string]

	mu     sync.Mutex // never held over I/O
	clones map[string]*clone
	ending map[string]*end // by clone and head key
	// flattening are the heads, likewise, whose layers are being joined, or could
	// not be.
	flattening map[string]flattening
}

type flattening struct {
	begun bool
	again time.Time // after a failure
}

// clone is what there is of one clone; guarded by Manager.mu.
type clone struct {
	key    string
	layers map[string]meta.WarmLayer
	heads  map[string]meta.WarmHead
	users  map[string]int // of layers
	swept  bool
}

// NewManager returns a Manager for what state says exists.
func NewManager(c Config, state meta.State) *Manager {
	c.Wait = cmp.Or(c.Wait, defaultWait)
	m := &Manager{Config: c, clones: make(map[string]*clone), ending: make(map[string]*end), flattening: make(map[string]flattening)}
	for _, l := range state.WarmLayers {
		m.cloneLocked(l.Clone).layers[l.ID] = l
	}
	for _, h := range state.WarmHeads {
		m.cloneLocked(h.Clone).heads[h.Key] = h
	}
	return m
}

func (m *Manager) cloneLocked(key string) *clone {
	c, ok := m.clones[key]
	if !ok {
		c = &clone{key: key, layers: make(map[string]meta.WarmLayer), heads: make(map[string]meta.WarmHead), users: make(map[string]int)}
		m.clones[key] = c
	}
	return c
}

func (m *Manager) dir(clone string) string { return filepath.Join(m.Root, "clones", clone, "warm") }

func (m *Manager) layerDir(clone, id string) string { return filepath.Join(m.dir(clone), id) }

// newID returns the ID of a new layer.
func newID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Hold keeps the layers that a workspace stands on until Drop.
func (m *Manager) Hold(clone string, paths []meta.WarmPath) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdLocked(clone, paths)
}

func (m *Manager) holdLocked(clone string, paths []meta.WarmPath) {
	for _, p := range paths {
		for _, id := range p.Chain {
			m.cloneLocked(clone).users[id]++
		}
	}
}

// Drop ends a Hold, or what Take holds. Layers that nothing needs any more are
// removed in the background.
func (m *Manager) Drop(clone string, paths []meta.WarmPath) {
	m.mu.Lock()
	c := m.cloneLocked(clone)
	gone := false
	for _, p := range paths {
		for _, id := range p.Chain {
			if c.users[id]--; c.users[id] <= 0 {
				delete(c.users, id)
				gone = gone || !c.onHeads(id)
			}
		}
	}
	m.mu.Unlock()
	if gone {
		m.Background(func(ctx context.Context) {
			if err := m.collect(ctx, clone); err != nil && ctx.Err() == nil {
				m.Log.WithError(err).WithField("clone", clone).Warn("collect warm layers")
			}
		})
	}
}

// onHeads reports whether a head has the layer in its chain.
func (c *clone) onHeads(id string) bool {
	for _, h := range c.heads {
		if slices.Contains(h.Chain, id) {
			return true
		}
	}
	return false
}

// Lower returns the directories of the layers that a workspace stands on, for the
// overlay.
func (m *Manager) Lower(clone string, paths []meta.WarmPath) []string {
	var dirs []string
	for _, p := range paths {
		for _, id := range p.Chain {
			dirs = append(dirs, m.layerDir(clone, id))
		}
	}
	return dirs
}

// lock takes the lock of what moves, with the clone swept.
func (m *Manager) lock(ctx context.Context, clone string) (unlock func(), err error) {
	unlock, err = m.moving.Lock(ctx, clone)
	if err != nil {
		return nil, err
	}
	if err := m.sweep(clone); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// collect removes the layers of a clone that no head and no workspace needs.
func (m *Manager) collect(ctx context.Context, clone string) error {
	unlock, err := m.lock(ctx, clone)
	if err != nil {
		return err
	}
	defer unlock()
	return m.commit(clone, change{})
}
