package clone

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Spec describes a checkout of a clone, and Since in it which answers of the remote serve that.
type (
	Spec  = tree.Spec
	Since = remote.Since
)

// Clone is everything kept for one (subject, repository). It is safe for
// concurrent use.
type Clone struct {
	// remote has the stores. The clone exists once one was fetched.
	remote  *remote.Remote
	Trees   *tree.Collection
	Key     string // also its directory below clones/
	Dir     string
	Subject volume.Subject
	m       *Manager
	layers  *layer.Set
	used    *work.Resource // its users are Creates, Mounts and work in the background
	swept   atomic.Bool
	// deepening is set while the full history is fetched after a shallow Mount.
	deepening atomic.Bool

	mu       sync.Mutex // guards what follows; never held over I/O
	rec      meta.Clone // without the stores, which remote has
	noted    time.Time  // when rec.Used was last saved
	deepened backoff    // after a shallow Mount
}

// Status is the state of a clone that the driver's Get shows.
type Status struct {
	Cloned    bool
	Used      bool // a Mount has used it: the next one reuses it
	FetchedAt time.Time
	State     string // absent, ready, cloning, fetching or checking out
	Progress  string
}

// State is what the next Mount of a Spec finds.
type State struct {
	Status
	Resolution meta.Resolution // zero if it is unknown
	Shallow    bool            // it gets the newest commits alone
}

// State returns the state for a Spec from memory.
func (c *Clone) State(s Spec) State {
	h := c.remote.Serving(s.Source)
	st := State{Status: c.Status(h)}
	st.Resolution, _ = c.remote.Resolution(s.Source)
	st.Shallow = h.Cold && !st.FetchedAt.IsZero()
	return st
}

// Status returns the state from memory.
func (c *Clone) Status(h volume.History) Status {
	s := Status{State: "absent"}
	c.mu.Lock()
	if c.remote.Fetched() {
		s = Status{Cloned: true, Used: !c.rec.FirstMount.IsZero(), State: "ready"}
	}
	c.mu.Unlock()
	if store, ok := c.remote.Store(h); ok {
		s.FetchedAt = store.FetchedAt
	}
	if state, progress, ok := c.remote.Doing.Newest(); ok {
		s.State, s.Progress = state, progress
	}
	return s
}

// save saves the records of the clone and of layers as they are in memory. It copies them
// within the transaction: so the later of two concurrent calls saves both changes, and
// what was removed from memory is not saved again.
func (c *Clone) save(layers ...meta.Layer) error {
	return c.m.config.DB.Update(func(tx *meta.Tx) error { return c.put(tx, layers...) })
}

// put is save in a transaction.
func (c *Clone) put(tx *meta.Tx, layers ...meta.Layer) error {
	rec, ok := c.record()
	if !ok {
		return nil
	}
	return errors.Join(c.layers.Save(tx, layers...), tx.PutClone(rec))
}

// record returns a copy of the clone's record. It is not ok if nothing was fetched.
func (c *Clone) record() (rec meta.Clone, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec = c.rec.Copy()
	rec.Stores = c.remote.Stores()
	return rec, rec.Stores != nil
}

// forgetRecord removes the records of the clone and its stores from memory, and undo
// restores them.
func (c *Clone) forgetRecord() (rec meta.Clone, undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.rec
	rec = before.Copy()
	rec.Stores = c.remote.Stores()
	c.rec = meta.Clone{Key: before.Key, Subject: before.Subject, Repo: before.Repo}
	c.deepened, c.noted = backoff{}, time.Time{}
	restore := c.remote.Forget()
	c.Trees.CancelFlattening()
	return rec, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rec = before
		restore()
	}
}

// Use prevents an eviction of the clone until release is called. Creates and Mounts call
// it before they look at the clone. It waits for the end of a running eviction, after
// which the clone may not exist.
func (c *Clone) Use(ctx context.Context) (release func(), err error) { return c.used.Use(ctx) }

// Use is Clone.Use for the clone of a key.
func (m *Manager) Use(ctx context.Context, key string) (release func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return func() {}, nil // nothing can be evicted
	}
	return c.Use(ctx)
}

// ErrEvicted is the error of a task that an eviction cancels or prevents.
var ErrEvicted = errors.New("the clone was evicted meanwhile: run it again")

// Heavy starts a task in the background on the clone of a key, and waits for its slot. Its
// context ends when it is cancelled or has taken too long. done must be called at its end.
func (m *Manager) Heavy(ctx context.Context, key, op string) (_ context.Context, done func(), err error) {
	c := m.Lookup(key)
	if c == nil {
		return ctx, nil, ErrEvicted
	}
	ctx = work.WithOwner(ctx, work.Owner{Name: "the plugin", Subject: string(c.Subject)})
	ctx, end, err := c.used.Start(ctx)
	if err != nil {
		return ctx, nil, err
	}
	ctx, release, err := m.config.Git.Schedule(ctx, op)
	if err != nil {
		end()
		return ctx, nil, err
	}
	return ctx, func() { release(); end() }, nil
}

// usedEvery is the precision of recorded times of use, which matter in days. In memory that of a clone
// is exact, because one that exceeds a limit on its own goes a minute after it.
const usedEvery = time.Minute

// Touch records that the clone is used now, for example at the end of a workspace, which
// may have lasted for weeks.
func (c *Clone) Touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touchLocked(meta.Layer{}, meta.Layer{})
}

// touchLocked records that a workspace is about to use the layers. It saves the records
// in the background.
func (c *Clone) touchLocked(tree, gitLayer meta.Layer) {
	now, stale := c.m.config.Now(), false
	old := func(used time.Time) bool { return now.Sub(used) >= usedEvery || now.Before(used) } // the clock may have been wrong then
	if c.remote.Fetched() {
		if c.rec.Used = now; old(c.noted) { // in memory it is exact
			c.noted, stale = now, true
		}
	}
	list := append(c.layers.Touch(now, old, meta.Tree, tree.Chain...), c.layers.Touch(now, old, meta.GitLayer, gitLayer.ID)...)
	if stale || len(list) > 0 {
		c.saveSoon(list...)
	}
}

// soon is when saveSoon saves, and Measure measures: the Mount that made the note still commits its
// workspace before, and would wait behind another commit.
const soon = time.Second

// saveSoon is save in the background, for a note of when something was used.
func (c *Clone) saveSoon(list ...meta.Layer) {
	c.m.config.Work.Go(func(ctx context.Context) {
		select {
		case <-time.After(soon):
		case <-ctx.Done():
		}
		if err := c.save(list...); err != nil && ctx.Err() == nil {
			c.m.config.Log.WithContext(ctx).WithError(err).WithField("clone", c.Key).
				Warn("note when the clone was used")
		}
	})
}

// FewFiles is more than a volume, or a workspace in which nothing was written, takes.
var FewFiles = disk.Size{Bytes: 1 << 20, Inodes: 100}

// roomTries is how often WithRoom calls f.
const roomTries = 3

// WithRoom is Manager.WithRoom in the name of the clone's subject.
func (c *Clone) WithRoom(ctx context.Context, need disk.Size, f func() error) error {
	return c.m.WithRoom(ctx, string(c.Subject), need, f)
}

// WithRoom calls f. If the disk is full, it makes room for need, in the name of a
// subject, and calls f again, unless the work yields: nothing is evicted for work
// in advance. need is zero if it is unknown, and may be too low: if f fails again, the
// janitor guesses, and f is called for the last time. If only git's words say that the disk
// is full, f is called again without an eviction. A failed f must not leave anything
// behind. If no room can be made, the error wraps those of f and of Config.MakeRoom.
func (m *Manager) WithRoom(ctx context.Context, subject string, need disk.Size, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		full := m.config.MakeRoom != nil && giterror.NoSpace(err)
		says := m.config.AwaitRoom != nil && giterror.SaysNoSpace(err)
		if try == roomTries || !full && !says || work.JobOf(ctx).Yields() {
			return err
		}
		log := m.config.Log.WithContext(ctx).WithError(err)
		var roomErr error
		since := time.Now()
		if full {
			log.Warn("the disk is full: making room")
			roomErr = m.config.MakeRoom(ctx, subject, need)
			need = disk.Size{} // that much was not enough, or others took it
		} else {
			log.Warn("git says that the disk is full, which it is not now: trying again")
			roomErr = m.config.AwaitRoom(ctx)
		}
		work.Waited(ctx, "room on the disk", since)
		if roomErr != nil {
			return fmt.Errorf("%w; %w", err, roomErr)
		}
	}
}
