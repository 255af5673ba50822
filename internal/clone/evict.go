package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/work"
)

// Forget removes what another package knows of a clone from memory. del deletes its
// records, except those of layers; it may be called more than once. undo restores the
// memory.
type Forget func(key string) (del func(*meta.Tx) error, undo func())

// EvictClone deletes the records of a clone and then moves its directory to the trash. If
// the clone is in use it stays, and the error is a *work.BusyError. Tasks that stop names
// are cancelled: their processes end, and callers that wait for them get an error. A
// Mount that comes meanwhile waits for the end of the eviction and makes a new clone. An
// unknown clone is not an error. Each forget removes what another package knows of the
// clone.
func (m *Manager) EvictClone(ctx context.Context, key string, stop work.Stop, forget ...Forget) error {
	return m.ClearClone(ctx, key, stop, nil, forget...)
}

// Clear removes what stands on a clone. When nothing that it has to remove is mounted, and
// before it removes anything, it calls ready, whose error it returns.
type Clear func(ctx context.Context, ready func() error) error

// ClearClone is EvictClone for a clone that workspaces stand on: it calls clear to remove them
// while no Create and no Mount uses the clone. After an error of clear the clone stays.
func (m *Manager) ClearClone(ctx context.Context, key string, stop work.Stop, clear Clear, forget ...Forget) error {
	return m.evict(ctx, key, stop, clear, func(c *Clone) error {
		rec, restore := c.forgetRecord()
		list, size := c.layers.List(), c.sizeWith(rec)
		also := []func(*meta.Tx) error{func(tx *meta.Tx) error { return tx.DeleteClone(key) }}
		var undos []func()
		for _, f := range forget {
			del, undo := f(key)
			also, undos = append(also, del), append(undos, undo)
		}
		if err := c.layers.Forget(list, also...); err != nil {
			for _, undo := range undos {
				undo()
			}
			restore()
			return err
		}
		failpoint.Hit("clone/evict/recorded")
		c.swept.Store(false) // if the directory stays, the next Mount removes it first
		err := c.trash(size)
		if err != nil {
			m.config.Work.Go(func(ctx context.Context) {
				trash.Again(ctx, func() error { return m.trashLeft(ctx, key, size) })
			})
		}
		return err
	})
}

// trash moves the clone's directory to the trash.
func (c *Clone) trash(size disk.Size) error {
	if err := c.m.config.Trash.Clear(c.Dir, "clone", size); err != nil {
		return err
	}
	failpoint.Hit("clone/evict/renamed")
	_ = os.Remove(filepath.Dir(c.Dir)) // the subject's, if it is empty now
	return nil
}

// trashLeft moves the directory of a clone without records to the trash, unless a Mount
// has made a new clone in it.
func (m *Manager) trashLeft(ctx context.Context, key string, size disk.Size) error {
	return m.evict(ctx, key, work.StopNothing, nil, func(c *Clone) error {
		if c.remote.Fetched() || len(c.layers.List()) > 0 {
			return nil
		}
		return c.trash(size)
	})
}

// sizeWith returns the size of the clone with that record, as far as it was measured.
func (c *Clone) sizeWith(rec meta.Clone) disk.Size {
	sum := rec.LFS.Size.Add(c.layers.Sizes().Sum())
	for _, s := range rec.Stores {
		sum = sum.Add(s.Size.Size)
	}
	return sum
}

// heldBusy says why a clone whose layers are held can't be evicted.
const heldBusy = "workspaces or checkpoints stand on it"

// evict calls f while the clone of a key has no users and nothing holds its layers. It first
// cancels the tasks that stop names, and then calls clear, unless it is nil, to end the holds.
func (m *Manager) evict(ctx context.Context, key string, stop work.Stop, clear Clear, f func(*Clone) error) error {
	c := m.Lookup(key)
	if c == nil {
		return ctx.Err()
	}
	if clear == nil && c.Trees.Held() && !c.used.Usage().Yields { // a build that yields holds layers, until Evict ends it
		return &work.BusyError{Name: c.used.Name, Reason: heldBusy}
	}
	done, err := c.used.Evict(ctx, stop)
	if err != nil {
		return err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := c.remote.TryLock()
	if err != nil {
		return err
	}
	defer unlock()
	if clear != nil {
		if err := clear(ctx, c.notMounted); err != nil {
			return err
		}
	}
	if c.Trees.Held() {
		return &work.BusyError{Name: c.used.Name, Reason: "a workspace was made of it meanwhile"}
	}
	unlockLayers, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlockLayers()
	if err := c.notMounted(); err != nil {
		return err
	}
	if err := f(c); err != nil {
		return fmt.Errorf("evict clone %s: %w", key, err)
	}
	return nil
}

// notMounted returns a *work.BusyError if something of the clone is mounted. The kernel may
// know of a mount that no record has.
func (c *Clone) notMounted() error {
	at, err := c.mounted()
	if err == nil && at != "" {
		err = &work.BusyError{Name: c.used.Name, Reason: at + " is mounted"}
	}
	return err
}

// mounted returns a mount point of the clone: of a workspace, or of a build that was
// killed. It is empty if nothing is mounted.
func (c *Clone) mounted() (at string, err error) {
	if there, err := disk.Exists(c.Dir); err != nil || !there {
		return "", err
	}
	points, err := overlay.Mounts(c.Dir)
	if err != nil {
		return "", err
	}
	if len(points) > 0 {
		return points[0].Path, nil
	}
	workspaces, err := os.ReadDir(filepath.Join(c.Dir, place.Workspaces))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, e := range workspaces {
		at := filepath.Join(overlay.PointsDir(c.m.config.Root), e.Name())
		if mounted, err := overlay.Mounted(at); err != nil || mounted {
			return at, err
		}
	}
	return "", nil
}

// EvictLayers removes trees and git layers of a clone by ID. The next Mount builds again
// those that a ref needs. A layer stays if it is held, or if a tree that is not evicted
// stands on it; then the error is a *work.BusyError. Unknown IDs are not an error.
func (m *Manager) EvictLayers(ctx context.Context, key string, ids []string) error {
	c := m.Lookup(key)
	if c == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	gone, stayed, err := c.Trees.Evict(ids)
	if err != nil {
		return fmt.Errorf("evict layers of clone %s: %w", key, err)
	}
	if stayed > 0 {
		return &work.BusyError{Name: c.used.Name, Reason: fmt.Sprintf("%d of %d layers are used by workspaces, mounts that begin, or trees on them", stayed, stayed+gone)}
	}
	return nil
}
