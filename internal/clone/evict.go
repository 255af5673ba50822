package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/work"
)

// EvictClone removes everything that is kept for a clone: the records are deleted,
// and then its directory goes to the trash as a whole. A clone that is in use stays:
// the error is a *work.BusyError. Work that stop names is no reason to stay: it is
// cancelled, its processes are ended, and whoever waits for it gets an error. A Mount
// that comes meanwhile waits for the end of the eviction and makes a new clone. An
// unknown clone is not an error.
func (m *Manager) EvictClone(ctx context.Context, key string, stop work.Stop) error {
	return m.evict(ctx, key, stop, func(c *Clone) error {
		rec, restore := c.forgetRecord()
		list := c.layers.List()
		size := sizeOf(rec, list)
		also := []func(*meta.Tx) error{func(tx *meta.Tx) error { return tx.DeleteClone(key) }}
		var undos []func()
		for _, evicting := range m.Evicting {
			del, undo := evicting(key)
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
		c.swept.Store(false) // if the directory stays, the next Mount must not find it
		err := c.trash(size)
		if err != nil {
			m.Background(func(ctx context.Context) { trash.Again(ctx, func() error { return m.trashLeft(ctx, key, size) }) })
		}
		return err
	})
}

// trash trashes the clone's directory.
func (c *Clone) trash(size disk.Size) error {
	if err := c.m.Trash.Clear(c.Dir, "clone", size); err != nil {
		return err
	}
	failpoint.Hit("clone/evict/renamed")
	_ = os.Remove(filepath.Dir(c.Dir)) // the subject's, if this was its only clone
	return nil
}

// trashLeft trashes the directory of a clone that has no records any more, unless a
// Mount has made a new clone in it.
func (m *Manager) trashLeft(ctx context.Context, key string, size disk.Size) error {
	return m.evict(ctx, key, work.StopNothing, func(c *Clone) error {
		if c.Remote.Fetched() || len(c.layers.List()) > 0 {
			return nil
		}
		return c.trash(size)
	})
}

// sizeOf is what a clone takes that has these layers, as far as it was measured.
func sizeOf(rec meta.Clone, list []meta.Layer) (sum disk.Size) {
	sum = rec.LFS.Size
	for _, s := range rec.Stores {
		sum = sum.Add(s.Size.Size)
	}
	for _, size := range rec.Caches {
		sum = sum.Add(size.Size)
	}
	for _, l := range list {
		sum = sum.Add(l.Size.Size)
	}
	return sum
}

// EvictCache removes a clone's dependency cache of a uid, if nobody uses the clone:
// otherwise the error is a *work.BusyError.
func (m *Manager) EvictCache(ctx context.Context, key, uid string) error {
	if uid == "" || uid != filepath.Base(uid) || uid[0] == '.' {
		return fmt.Errorf("evict cache %q of clone %s: no such cache", uid, key)
	}
	return m.evict(ctx, key, work.StopNothing, func(c *Clone) error {
		rec, _ := c.record()
		if err := m.Trash.Clear(filepath.Join(c.Dir, "cache", uid), "cache", rec.Caches[uid].Size); err != nil {
			return err
		}
		failpoint.Hit("clone/evict-cache/renamed")
		return c.SetCache(uid, meta.Measured{})
	})
}

// SetCache notes the size of the cache of a uid; the zero value says that there is
// none.
func (c *Clone) SetCache(uid string, size meta.Measured) error {
	c.mu.Lock()
	if !c.Remote.Fetched() {
		c.mu.Unlock()
		return nil
	}
	if size.At.IsZero() {
		delete(c.rec.Caches, uid)
	} else {
		if c.rec.Caches == nil {
			c.rec.Caches = make(map[string]meta.Measured)
		}
		c.rec.Caches[uid] = size
	}
	c.mu.Unlock()
	return c.save()
}

// evict calls f while nobody uses the clone of a key or begins to. It
// cancels the tasks of the clone first if stop says so.
func (m *Manager) evict(ctx context.Context, key string, stop work.Stop, f func(*Clone) error) error {
	c := m.Lookup(key)
	if c == nil {
		return ctx.Err()
	}
	if c.Trees.Held() {
		return &work.BusyError{Name: c.used.Name, Reason: c.busy(work.Usage{})}
	}
	done, err := c.used.Evict(ctx, stop)
	if err != nil {
		return err
	}
	defer done()
	if c.Trees.Held() {
		return &work.BusyError{Name: c.used.Name, Reason: "a workspace was made of it meanwhile"}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := c.Remote.TryLock()
	if err != nil {
		return err
	}
	defer unlock()
	unlockLayers, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlockLayers()
	// No record says so, but the kernel has the last word.
	if at, err := c.mounted(); err != nil {
		return err
	} else if at != "" {
		return &work.BusyError{Name: c.used.Name, Reason: at + " is mounted"}
	}
	if err := f(c); err != nil {
		return fmt.Errorf("evict clone %s: %w", key, err)
	}
	return nil
}

// mounted returns where something of the clone is mounted: a workspace, or what a
// killed build has left; empty if nothing is.
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
	workspaces, err := os.ReadDir(filepath.Join(c.Dir, "workspaces"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, e := range workspaces {
		at := filepath.Join(overlay.PointsDir(c.m.Root), e.Name())
		if mounted, err := overlay.Mounted(at); err != nil || mounted {
			return at, err
		}
	}
	return "", nil
}

// EvictLayers removes trees and git layers of a clone, by ID, also such that a ref
// is at: the next Mount builds those again. Those that are held, or that a tree
// stands on which is not to go, stay, and the error is then a *work.BusyError. Unknown
// IDs are no error.
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
	gone, stayed, err := c.layers.Evict(ids, tree.Kinds...)
	if err != nil {
		return fmt.Errorf("evict layers of clone %s: %w", key, err)
	}
	if stayed > 0 {
		return &work.BusyError{Name: c.used.Name, Reason: fmt.Sprintf("%d of %d layers have workspaces or trees on them", stayed, stayed+gone)}
	}
	return nil
}
