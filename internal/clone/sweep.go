package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/work"
)

// Sweep makes the clone's directories and its records agree, until it has
// succeeded once: leftovers of an earlier run go to the trash, records without a
// directory are dropped. It leaves workspaces alone.
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
		unlock, err := c.Remote.Lock(ctx)
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
	left, err := c.Remote.Sweep()
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
	if err := c.m.TrashUnless(tree.LFSDir(c.Dir), func(name string) bool { return !durable.IsTemp(name) }); err != nil {
		return err
	}
	return c.m.TrashUnless(filepath.Join(c.Dir, "store"), c.Remote.HasStore)
}

// forget drops the records of a clone that has no store, but those of layers that
// a workspace stands on: they are complete in themselves. The clone itself may have
// had no record: then those of its layers are what is left of it. It is called with
// the lock of the layers held.
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

// SweepAll sweeps every clone, and trashes directories below clones/ that are
// none. It returns when all are done, or ctx ends.
func (m *Manager) SweepAll(ctx context.Context) error {
	var errs []error
	for _, c := range m.all() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, c.Sweep(ctx))
	}
	dirs, err := filepath.Glob(filepath.Join(m.Root, "clones", "*", "*"))
	errs = append(errs, err)
	for _, dir := range dirs {
		key, err := filepath.Rel(filepath.Join(m.Root, "clones"), dir)
		if err != nil {
			return err
		}
		errs = append(errs, m.sweepStranger(ctx, key, dir))
	}
	subjects, err := filepath.Glob(filepath.Join(m.Root, "clones", "*"))
	errs = append(errs, err)
	for _, dir := range subjects {
		_ = os.Remove(dir) // not empty: it has clones
	}
	for _, c := range m.all() {
		c.measureRestored()
	}
	return errors.Join(errs...)
}

// sweepStranger trashes a clone's directory that no record names, unless a
// Prepare has begun to fill it since the start, or workspaces stand on it.
func (m *Manager) sweepStranger(ctx context.Context, key, dir string) error {
	c := m.Lookup(key)
	if c == nil {
		man, err := readManifest(dir)
		if err != nil {
			_, err := m.Trash.Put(dir, "leftover")
			return err
		}
		c = m.get(meta.Clone{Key: key, Subject: man.Subject, Repo: man.Repo})
	}
	if err := c.Sweep(ctx); err != nil {
		return err
	}
	unlock, err := c.Remote.TryLock()
	if busy := (*work.BusyError)(nil); errors.As(err, &busy) {
		return nil // it is being filled, which may take long
	}
	if err != nil {
		return err
	}
	defer unlock()
	if c.Remote.Fetched() || c.Trees.Held() || c.used.Usage().Used {
		return nil
	}
	if _, err := m.Trash.Put(dir, "leftover"); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // the subject's, if this was its only clone
	return nil
}
