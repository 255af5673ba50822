package warm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
)

// Config is what a Manager works with.
type Config struct {
	*layer.Store
	// Use keeps a clone from being evicted until release is called.
	Use func(ctx context.Context, clone string) (release func(), err error)
	// Heavy waits until heavy work on a clone may run, and returns a context that ends
	// when it must be done. done is called at its end.
	Heavy func(ctx context.Context, clone, op string) (_ context.Context, done func(), err error)
	// Wait is how long a Take waits for ends of workspaces that may move its heads.
	// Zero is 2 s: that of 50,000 files takes a quarter of it.
	Wait time.Duration
}

const defaultWait = 2 * time.Second

// Manager holds the warm layers of all clones. It is safe for concurrent use.
type Manager struct {
	Config
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

// clone is what there is of one clone; guarded by Manager.mu, but for the layers. Heads
// move while the lock of these is held.
type clone struct {
	layers *layer.Set
	heads  map[string]meta.WarmHead
	swept  bool
}

// NewManager returns a Manager for what state says exists.
func NewManager(c Config, state meta.State) *Manager {
	c.Wait = cmp.Or(c.Wait, defaultWait)
	m := &Manager{Config: c, clones: make(map[string]*clone), ending: make(map[string]*end), flattening: make(map[string]flattening)}
	for _, h := range state.WarmHeads {
		m.cloneLocked(h.Clone).heads[h.Key] = h
	}
	return m
}

func (m *Manager) cloneLocked(key string) *clone {
	c, ok := m.clones[key]
	if !ok {
		c = &clone{layers: m.Set(key), heads: make(map[string]meta.WarmHead)}
		m.clones[key] = c
	}
	return c
}

// newID returns the ID of a new layer.
func newID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Hold keeps the layers that a workspace stands on until Drop.
func (m *Manager) Hold(clone string, paths []meta.WarmPath) {
	m.Set(clone).Hold(meta.WarmLayer, ids(paths)...)
}

// ids are those of the layers that a workspace stands on.
func ids(paths []meta.WarmPath) (list []string) {
	for _, p := range paths {
		list = append(list, p.Chain...)
	}
	return list
}

// Drop ends a Hold, or what Take holds. Layers that nothing needs any more are
// removed in the background.
func (m *Manager) Drop(clone string, paths []meta.WarmPath) {
	m.Set(clone).Drop(meta.WarmLayer, ids(paths)...)
	m.mu.Lock()
	n := len(m.cloneLocked(clone).unneeded())
	m.mu.Unlock()
	if n == 0 {
		return
	}
	m.Background(func(ctx context.Context) {
		if err := m.collect(ctx, clone); err != nil && ctx.Err() == nil {
			m.Log.WithError(err).WithField("clone", clone).Warn("collect warm layers")
		}
	})
}

// unneeded returns the layers that no head and no workspace needs.
func (c *clone) unneeded() []meta.Layer {
	return slices.DeleteFunc(c.layers.List(meta.WarmLayer), func(l meta.Layer) bool {
		return c.layers.Held(l.Kind, l.ID) || c.onHeads(l.ID)
	})
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
	return m.Set(clone).Lower(meta.WarmLayer, ids(paths)...)
}

// Settle returns when the layers that a workspace stands on are on disk, and their
// records say so.
func (m *Manager) Settle(ctx context.Context, clone string, paths []meta.WarmPath) error {
	return m.Set(clone).Settle(ctx, meta.WarmLayer, ids(paths)...)
}

// lock takes the lock of the layers of a clone, with the clone swept.
func (m *Manager) lock(ctx context.Context, clone string) (unlock func(), err error) {
	unlock, err = m.Set(clone).Lock(ctx)
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
