package warm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/keylock"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// Config is what a Manager works with.
type Config struct {
	Root   string // the data directory
	DB     *meta.DB
	Trash  *trash.Trash
	Log    *logrus.Logger
	Now    func() time.Time
	Layers *layer.Store // of the data directory
	Clones Clones
	// Background is that of layer.Config.
	Background func(func(ctx context.Context))
	// Wait is how long Select waits for ending workspaces that may move its heads. Zero
	// means 2 s: promoting 50,000 files takes a quarter of it.
	Wait time.Duration
	// Git confines and runs the processes that read indexes.
	Git *git.Git
	// Metacopy says that workspaces are mounted with metacopy.
	Metacopy bool
}

// Clones is the part of *clone.Manager that work on warm layers needs.
type Clones interface {
	// Use keeps a clone from being evicted until release is called.
	Use(ctx context.Context, clone string) (release func(), err error)
	// Heavy waits until heavy work on a clone may run. It returns a context for the work,
	// which then calls done.
	Heavy(ctx context.Context, clone, op string) (_ context.Context, done func(), err error)
}

const defaultWait = 2 * time.Second

// Manager holds the warm layers of all clones. It is safe for concurrent use.
type Manager struct {
	config  Config
	mu      sync.Mutex // never held over I/O
	clones  map[string]*clone
	endings map[*ending]struct{}
	// flattening has the heads, as "clone/key", whose layers are being flattened, with the zero
	// time, and those where that failed, with the time from which it may be tried again.
	flattening map[string]time.Time
	sums       map[string]string     // of the files of a tree, guarded by mu: see sumFiles
	unlike     map[string]bool       // by clone and ID the layers of times that would be too large, guarded by mu
	dating     keylock.Locks[string] // by clone and ID of a layer of times, while it is made
	copying    keylock.Locks[string] // by clone, while a promotion completes files
	publishing keylock.Locks[string] // by clone and key of the head of a cache, while files are published or dropped
	turns      *work.Scheduler       // for publications
}

// clone has the warm state of one clone. Heads change only while the lock of the layers is
// held.
type clone struct {
	layers *layer.Set
	swept  atomic.Bool
	heads  map[string]meta.WarmHead // guarded by Manager.mu
}

// NewManager returns a Manager with the heads that state has records of.
func NewManager(c Config, state meta.State) *Manager {
	c.Wait = cmp.Or(c.Wait, defaultWait)
	m := &Manager{config: c, clones: make(map[string]*clone), endings: make(map[*ending]struct{}), flattening: make(map[string]time.Time), sums: make(map[string]string), unlike: make(map[string]bool),
		turns: work.NewScheduler([3]work.Limits{work.CPU: turns})}
	for _, h := range state.WarmHeads {
		m.cloneLocked(h.Clone).heads[h.Key] = h
	}
	return m
}

// clone returns the clone with a key. It may be new and empty.
func (m *Manager) clone(key string) *clone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cloneLocked(key)
}

func (m *Manager) cloneLocked(key string) *clone {
	c, ok := m.clones[key]
	if !ok {
		c = &clone{layers: m.config.Layers.Set(key), heads: make(map[string]meta.WarmHead)}
		m.clones[key] = c
	}
	return c
}

// current returns a head as it is now.
func (m *Manager) current(clone, key string) (h meta.WarmHead, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok = m.cloneLocked(clone).heads[key]
	return h, ok
}

// newID returns the ID of a new layer.
func newID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Hold keeps the layers that a workspace uses until Drop.
func (m *Manager) Hold(clone string, paths []meta.WarmPath) {
	m.config.Layers.Set(clone).Hold(meta.WarmLayer, ids(paths)...)
}

// ids returns the IDs of the layers that a workspace uses.
func ids(paths []meta.WarmPath) (list []string) {
	for _, p := range paths {
		list = append(list, p.Chain...)
	}
	if len(paths) > 0 && paths[0].Base.Times != "" {
		list = append(list, paths[0].Base.Times)
	}
	return list
}

// Drop ends a hold of Hold or Select. Layers that nothing needs any more are removed in the
// background.
func (m *Manager) Drop(clone string, paths []meta.WarmPath) {
	m.config.Layers.Set(clone).Drop(meta.WarmLayer, ids(paths)...)
	m.mu.Lock()
	n := len(m.cloneLocked(clone).unneeded())
	m.mu.Unlock()
	if n == 0 {
		return
	}
	m.config.Background(func(ctx context.Context) {
		if err := m.collect(ctx, clone); err != nil && ctx.Err() == nil {
			m.config.Log.WithContext(ctx).WithError(err).WithField("clone", clone).Warn("collect warm layers")
		}
	})
}

// unneeded returns the layers that no head and no workspace needs: a layer of times is needed as long as
// each head for which it was made has the same layers, or the newest layer of a head was built on it.
func (c *clone) unneeded() []meta.Layer {
	tops := make(map[string]bool) // of heads
	for _, h := range c.heads {
		if len(h.Chain) > 0 {
			tops[h.Chain[0]] = true
			top, _ := c.layers.Get(meta.WarmLayer, h.Chain[0])
			tops[top.Base.Times] = true
		}
	}
	return slices.DeleteFunc(c.layers.List(meta.WarmLayer), func(l meta.Layer) bool {
		fits := len(l.Fits) > 0 && !slices.ContainsFunc(l.Fits, func(id string) bool { return !tops[id] })
		return fits || tops[l.ID] || c.layers.Held(l.Kind, l.ID) || c.onHeads(l.ID)
	})
}

// onHeads reports whether any head has the layer in its chain.
func (c *clone) onHeads(id string) bool {
	for _, h := range c.heads {
		if slices.Contains(h.Chain, id) {
			return true
		}
	}
	return false
}

// Lower returns the directories of the layers that a workspace uses, for its overlay.
func (m *Manager) Lower(clone string, paths []meta.WarmPath) []string {
	return m.files(clone, ids(paths)...)
}

// files returns the directories of layers that an overlay shows.
func (m *Manager) files(clone string, ids ...string) (list []string) {
	for _, dir := range m.config.Layers.Set(clone).Lower(meta.WarmLayer, ids...) {
		list = append(list, filepath.Join(dir, filesPart))
	}
	return list
}

// Size returns the size of all warm layers of a clone. It does no I/O.
func (m *Manager) Size(clone string) disk.Size {
	sizes := m.config.Layers.Set(clone).Sizes()
	return sizes.WarmLayers.Add(sizes.Caches)
}

// ChainSize returns the size of some warm layers of a clone, also of files that they share with others. It does no I/O.
func (m *Manager) ChainSize(clone string, chain []string) disk.Size {
	return m.config.Layers.Set(clone).SizeOf(meta.WarmLayer, chain...)
}

// AwaitDurable returns when the layers that a workspace uses are durable.
func (m *Manager) AwaitDurable(ctx context.Context, clone string, paths []meta.WarmPath) error {
	return m.config.Layers.Set(clone).AwaitDurable(ctx, meta.WarmLayer, ids(paths)...)
}

// lock takes the lock of a clone's layers, and sweeps the clone if necessary.
func (m *Manager) lock(ctx context.Context, clone string) (unlock func(), err error) {
	unlock, err = m.config.Layers.Set(clone).Lock(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.sweepLocked(clone); err != nil {
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

// sweep makes the records and the directories of a clone agree, unless it already has. It
// removes layers from the heads that are gone or were not durable before a reboot, and moves
// directories without a record to the trash. Layers that workspaces hold stay. Everything
// that uses a clone sweeps it first.
func (m *Manager) sweep(ctx context.Context, clone string) error {
	if m.clone(clone).swept.Load() {
		return nil
	}
	unlock, err := m.lock(ctx, clone)
	if err == nil {
		unlock()
	}
	return err
}

// SweepAll sweeps all clones that may have warm layers.
func (m *Manager) SweepAll(ctx context.Context) error {
	keys, err := m.config.Layers.Owners(meta.WarmLayer)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, m.sweep(ctx, key))
	}
	return errors.Join(errs...)
}

// sweepLocked is sweep with the clone's lock held.
func (m *Manager) sweepLocked(clone string) error {
	c := m.clone(clone)
	if c.swept.Load() {
		return nil
	}
	lost, err := c.layers.Void(meta.WarmLayer)
	if err != nil {
		return err
	}
	ch := change{lost: lost}
	isLost := func(id string) bool {
		_, ok := c.layers.Get(meta.WarmLayer, id)
		return !ok || slices.ContainsFunc(lost, func(l meta.Layer) bool { return l.ID == id })
	}
	m.mu.Lock()
	for _, h := range c.heads {
		if h.Path == cache.Mount { // its layers depend on nothing below
			if slices.ContainsFunc(h.Chain, isLost) {
				h.Chain = slices.DeleteFunc(slices.Clone(h.Chain), isLost)
				ch.heads = append(ch.heads, h)
			}
			continue
		}
		// The layers below a lost one are still of use: they were the whole head once.
		n := len(h.Chain)
		for n > 0 && !isLost(h.Chain[n-1]) {
			n--
		}
		switch {
		case n == 0:
		case n == len(h.Chain):
			ch.gone = append(ch.gone, h)
		default:
			h.Chain = slices.Clone(h.Chain[n:])
			top, _ := c.layers.Get(meta.WarmLayer, h.Chain[0])
			h.Built = meta.Built{Commit: top.Commit, BuiltAt: top.BuiltAt}
			ch.heads = append(ch.heads, h)
		}
	}
	m.mu.Unlock()
	if err := m.commit(clone, ch); err != nil {
		return err
	}
	err = c.layers.TrashStrays(meta.WarmLayer)
	c.swept.Store(err == nil)
	return err
}
