package clone

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// Spec says which checkout of a clone is wanted.
type Spec = tree.Spec

// Clone is everything kept for one (subject, repository). It is safe for
// concurrent use.
type Clone struct {
	// Remote is the repository as it is held. The clone exists once something was fetched.
	Remote  *remote.Remote
	Trees   *tree.Collection // what is checked out of it
	Key     string           // also its directory below clones/
	Dir     string
	Subject volume.Subject
	m       *Manager
	layers  *layer.Set
	used    *work.Resource // by Creates, Mounts and work in the background
	swept   atomic.Bool

	mu      sync.Mutex      // guards what follows; never held over I/O
	rec     meta.Clone      // without the stores, which Remote has
	changed map[string]bool // stores that are to be measured
}

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

// WithRoom calls f, and if the disk is full, once more after room was made for need, as
// far as that is known, on behalf of the clone's subject. f leaves nothing half behind.
// When there is still no room the error says so, with what Config.MakeRoom has to say.
func (c *Clone) WithRoom(ctx context.Context, need disk.Size, f func() error) error {
	var err error
	for range 2 { // when what was free has gone to others, who has it is for MakeRoom to say
		if err = f(); c.m.MakeRoom == nil || !git.NoSpace(err) {
			return err
		}
		c.m.Log.WithError(err).Warn("the disk is full: room is made")
		if roomErr := c.m.MakeRoom(ctx, string(c.Subject), need); roomErr != nil {
			return fmt.Errorf("%w; %w", err, roomErr)
		}
	}
	return err
}
