package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/internal/work"
)

// Sweep makes the clone's directories and records agree: it moves leftovers of an earlier
// run to the trash and deletes records without a directory. After a success further calls
// do nothing. It does not touch workspaces.
func (c *Clone) Sweep(ctx context.Context) error {
	if c.swept.Load() {
		return nil
	}
	_, err := work.ShareTask(ctx, c.used, "sweep", func(ctx context.Context) (struct{}, error) {
		if c.swept.Load() {
			return struct{}{}, nil
		}
		err := c.sweepNow(ctx)
		if err != nil {
			err = fmt.Errorf("repair clone %s: %w", c.Key, err)
		}
		c.swept.Store(err == nil)
		return struct{}{}, err
	})
	return err
}

func (c *Clone) sweepNow(ctx context.Context) error {
	there, err := disk.Exists(c.Dir)
	if err != nil {
		return err
	}
	if there {
		unlock, err := c.remote.Lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !there {
		return c.forget()
	}
	left, err := c.remote.Sweep()
	if err == nil && !left {
		err = c.forget()
	}
	if err != nil {
		return err
	}
	failpoint.Hit("clone/sweep/stores")
	void, err := c.layers.Void(tree.Kinds...)
	if err == nil {
		err = c.layers.Forget(void)
	}
	if err != nil {
		return err
	}
	failpoint.Hit("clone/sweep/forgotten")
	if err := c.layers.TrashStrays(tree.Kinds...); err != nil {
		return err
	}
	complete := func(name string) bool { return !durable.IsTemp(name) }
	if err := c.m.config.Layers.TrashUnless(tree.LFSDir(c.Dir), complete); err != nil {
		return err
	}
	if err := c.m.config.Layers.TrashUnless(filepath.Join(c.Dir, place.Stores), c.remote.HasStore); err != nil {
		return err
	}
	return c.dropOldCache(ctx)
}

// dropOldCache moves the caches to the trash that were one writable directory for each uid.
func (c *Clone) dropOldCache(ctx context.Context) error {
	dir := filepath.Join(c.Dir, "cache")
	if there, err := disk.Exists(dir); err != nil || !there {
		return err
	}
	c.m.oldCaches.Do(func() {
		c.m.config.Log.WithContext(ctx).Info("the data directory has dependency caches in a layout of before: they are deleted, and begin anew")
	})
	return c.m.config.Trash.Clear(dir, "cache", disk.Size{})
}

// forget deletes the records of a clone without stores, except those of held layers, which
// are complete without a store. The clone may have no record of its own, only those of
// its layers. The caller holds the lock of the layers.
func (c *Clone) forget() error {
	rec, restore := c.forgetRecord()
	list := c.layers.Withdraw(c.layers.List(tree.Kinds...))
	if rec.Stores == nil && len(list) == 0 {
		return nil
	}
	err := c.layers.Forget(list, func(tx *meta.Tx) error { return tx.DeleteClone(c.Key) })
	if err != nil {
		restore() // the next sweep tries again
	}
	return err
}

// SweepAll sweeps every clone, and moves directories below clones/ that are not clones to
// the trash. It returns after the last one, or when ctx ends.
func (m *Manager) SweepAll(ctx context.Context) error {
	var errs []error
	for _, c := range m.all() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, c.Sweep(ctx))
	}
	clones, err := place.All(m.config.Root, ".")
	errs = append(errs, err)
	for _, c := range clones {
		errs = append(errs, m.sweepStranger(ctx, c.Key, c.Path))
	}
	subjects, _ := os.ReadDir(place.Clones(m.config.Root)) // whatever is left is only empty
	for _, e := range subjects {
		_ = os.Remove(filepath.Join(place.Clones(m.config.Root), e.Name())) // fails if it has clones
	}
	for _, c := range m.all() {
		c.measureRestored()
	}
	return errors.Join(errs...)
}

// sweepStranger moves a clone's directory without a record to the trash, unless a Prepare
// has begun to fill it since the start, or its layers are held.
func (m *Manager) sweepStranger(ctx context.Context, key, dir string) error {
	c, err := m.open(key)
	if err != nil {
		_, err := m.config.Trash.Put(dir, "leftover")
		return err
	}
	if err := c.Sweep(ctx); err != nil {
		return err
	}
	unlock, err := c.remote.TryLock()
	if busy := (*work.BusyError)(nil); errors.As(err, &busy) {
		return nil // a Prepare fills it, which may take long
	}
	if err != nil {
		return err
	}
	defer unlock()
	if c.remote.Fetched() || c.Trees.Held() || c.used.Usage().Used {
		return nil
	}
	if _, err := m.config.Trash.Put(dir, "leftover"); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // the subject's, if it is empty now
	return nil
}
