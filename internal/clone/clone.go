package clone

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Spec says which checkout of a clone is wanted.
type Spec = tree.Spec

// Clone is everything kept for one (subject, repository). It is safe for
// concurrent use.
type Clone struct {
	// Remote is the repository as it is held. The clone exists once something was fetched.
	Remote  *remote.Remote
	Trees   *tree.Collection // what is checked out of it
	m       *Manager
	key     string
	dir     string
	subject volume.Subject
	swept   atomic.Bool
	layers  *layer.Set
	used    *work.Resource // by Creates, Mounts and work in the background

	mu      sync.Mutex      // guards what follows; never held over I/O
	rec     meta.Clone      // without the stores, which Remote has
	changed map[string]bool // stores that are to be measured
}

// Key returns the clone's key, which is also its directory below clones/.
func (c *Clone) Key() string { return c.key }

// Dir returns the clone's directory.
func (c *Clone) Dir() string { return c.dir }

// Subject returns whom the clone belongs to.
func (c *Clone) Subject() volume.Subject { return c.subject }

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
	s := Status{State: "absent"}
	c.mu.Lock()
	if c.Remote.Fetched() {
		s = Status{Cloned: true, Used: !c.rec.FirstMount.IsZero(), State: "ready"}
	}
	c.mu.Unlock()
	if store, ok := c.Remote.Store(h); ok {
		s.FetchedAt = store.FetchedAt
	}
	if state, progress, ok := c.Remote.Doing.Newest(); ok {
		s.State, s.Progress = state, progress
	}
	return s
}

// Mounted records that a workspace was made of the clone: from now on it is
// reused.
func (c *Clone) Mounted() error {
	c.mu.Lock()
	if !c.Remote.Fetched() || !c.rec.FirstMount.IsZero() {
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
		rec, ok := c.record()
		if !ok {
			return nil
		}
		return errors.Join(c.layers.Save(tx, layers...), tx.PutClone(rec))
	})
}

// record returns a copy of the clone's record. It is not ok when there is none: nothing
// was fetched.
func (c *Clone) record() (rec meta.Clone, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recordLocked()
}

func (c *Clone) recordLocked() (rec meta.Clone, ok bool) {
	rec = c.rec.Copy()
	rec.Stores = c.Remote.Stores()
	return rec, rec.Stores != nil
}

// forgetRecord takes the records of the clone and its stores out of memory. undo puts
// them back.
func (c *Clone) forgetRecord() (rec meta.Clone, undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec, _ = c.recordLocked()
	before := c.rec
	c.rec = meta.Clone{Key: before.Key, Subject: before.Subject, Repo: before.Repo}
	restore := c.Remote.Forget()
	c.Trees.Forget()
	return rec, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rec = before
		restore()
	}
}
