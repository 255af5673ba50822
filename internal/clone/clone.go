package clone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Clone is everything kept for one (subject, repository). It is safe for
// concurrent use.
type Clone struct {
	m       *Manager
	key     string
	dir     string
	subject volume.Subject
	repo    string    // the normalized URL
	gate    work.Lock // held with the lock file, so that only processes poll for that
	// lfs is held while objects are fetched into the clone's LFS storage, so that
	// each is fetched once.
	lfs    chan struct{}
	swept  atomic.Bool
	layers *layer.Set
	used   *work.Resource // by Creates, Mounts and work in the background
	doing  Activities

	mu       sync.Mutex // guards what follows; never held over I/O
	rec      *meta.Clone
	changed  map[string]bool    // stores that are to be measured
	named    map[word]int       // by volumes
	aligned  map[string]aligned // by the name of the store
	built    map[string]Spec    // by the ID of a tree: it may have to be flattened
	settling map[string]int     // commits that are prepared whatever their refs are at
}

// Key returns the clone's key, which is also its directory below clones/.
func (c *Clone) Key() string { return c.key }

// Dir returns the clone's directory.
func (c *Clone) Dir() string { return c.dir }

// Subject returns whom the clone belongs to.
func (c *Clone) Subject() volume.Subject { return c.subject }

func (c *Clone) storeDir(name string) string { return filepath.Join(c.dir, "store", name+".git") }

// Status is what Get shows of a clone.
type Status struct {
	Cloned    bool
	Used      bool // a Mount was served from it: the next one reuses it
	FetchedAt time.Time
	State     string // absent, ready, cloning, fetching or checking out
	Progress  string
}

// Status answers from memory.
func (c *Clone) Status(h volume.History) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{State: "absent"}
	if c.rec != nil {
		s = Status{Cloned: true, Used: !c.rec.FirstMount.IsZero(), State: "ready"}
	}
	if store, ok := c.storeLocked(h); ok {
		s.FetchedAt = store.FetchedAt
	}
	if state, progress, ok := c.doing.Newest(); ok {
		s.State, s.Progress = state, progress
	}
	return s
}

// Resolution returns what s.Ref stood for when the remote was last asked.
func (c *Clone) Resolution(s Spec) (meta.Resolution, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	store, ok := c.storeLocked(s.History)
	if !ok {
		return meta.Resolution{}, false
	}
	r, ok := store.Refs[s.Ref.String()]
	return r, ok
}

// store returns a copy of a store's record; ok is false when there is none.
func (c *Clone) store(h volume.History) (store meta.Store, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	store, ok = c.storeLocked(h)
	store.Refs = maps.Clone(store.Refs)
	return store, ok
}

func (c *Clone) storeLocked(h volume.History) (store meta.Store, ok bool) {
	if c.rec == nil {
		return meta.Store{}, false
	}
	store, ok = c.rec.Stores[h.Name()]
	return store, ok
}

// Activity says what is being done for the clone, such as `cloning https://…
// receiving objects 43% (1.2 GiB)`; empty when nothing is.
func (c *Clone) Activity() string { return c.doing.String() }

// lockRetry is how often a lock that another process holds is asked for again.
const lockRetry = 50 * time.Millisecond

// lock takes the clone's lock: fetches, builds and removals of one clone exclude
// each other, also between processes. The file lies outside of what is renamed
// and deleted, and is never unlinked, so that nobody waits for a lock on a file
// that is gone.
func (c *Clone) lock(ctx context.Context) (unlock func(), err error) {
	release, err := c.gate.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	l := c.newFlock()
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		release()
		return nil, fmt.Errorf("lock %s: %w", c.used.Name, err)
	}
	return func() { c.unlock(l, release) }, nil
}

// tryLock is lock without waiting: if the lock is taken, the error is a *work.BusyError.
func (c *Clone) tryLock() (unlock func(), err error) {
	busy := &work.BusyError{Name: c.used.Name, Reason: "its lock is taken"}
	release, ok := c.gate.Try()
	if !ok {
		return nil, busy
	}
	l := c.newFlock()
	if ok, err := l.TryLock(); err != nil || !ok {
		release()
		if err == nil {
			err = busy
		}
		return nil, err
	}
	return func() { c.unlock(l, release) }, nil
}

func (c *Clone) newFlock() *flock.Flock {
	return flock.New(filepath.Join(c.m.Root, "locks", strings.ReplaceAll(c.key, "/", ".")+".lock"))
}

func (c *Clone) unlock(l *flock.Flock, release func()) {
	if err := l.Close(); err != nil {
		c.m.Log.WithError(err).Warnf("unlock clone %s", c.key)
	}
	release()
}

// Mounted records that a workspace was made of the clone: from now on it is
// reused.
func (c *Clone) Mounted() error {
	c.mu.Lock()
	if c.rec == nil || !c.rec.FirstMount.IsZero() {
		c.mu.Unlock()
		return nil
	}
	c.rec.FirstMount = c.m.Now()
	c.mu.Unlock()
	return c.save()
}

// save commits the records of the clone and of layers, as they are in memory. They
// are copied within the transaction, so that of two at a time the later one has
// what both have changed, and what is out of memory stays away.
func (c *Clone) save(layers ...meta.Layer) error {
	return c.m.DB.Update(func(tx *meta.Tx) error {
		c.mu.Lock()
		if c.rec == nil {
			c.mu.Unlock()
			return nil
		}
		rec := c.rec.Copy()
		c.mu.Unlock()
		return errors.Join(c.layers.Save(tx, layers...), tx.PutClone(rec))
	})
}

// kinds are those of the layers that are made here. Warm ones are another package's.
var kinds = []meta.Kind{meta.Tree, meta.GitLayer}

// Hold keeps the layers of a workspace from being collected until Drop.
func (c *Clone) Hold(chain []string, gitLayer string) {
	c.layers.Hold(meta.Tree, chain...)
	c.layers.Hold(meta.GitLayer, gitLayer)
}

// Drop ends a Hold. What nothing needs then goes in the background.
func (c *Clone) Drop(chain []string, gitLayer string) {
	c.layers.Drop(meta.Tree, chain...)
	c.layers.Drop(meta.GitLayer, gitLayer)
	c.collectSoon()
}

// held reports whether a workspace, of whatever state, or a build stands on layers of
// the clone.
func (c *Clone) held() bool { return c.layers.InUse(kinds...) }

// Lower returns the directories of the layers of a workspace, topmost first.
func (c *Clone) Lower(chain []string, gitLayer string) []string {
	return append(c.layers.Lower(meta.GitLayer, gitLayer), c.layers.Lower(meta.Tree, chain...)...)
}
