package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Sweep makes the clone's directories and its records agree, until it has
// succeeded once: leftovers of an earlier run go to the trash, records without a
// directory are dropped. It leaves workspaces alone.
func (c *Clone) Sweep(ctx context.Context) error {
	if c.swept.Load() {
		return nil
	}
	_, err := share(ctx, c.m, "sweep\x00"+c.key, func(context.Context) (struct{}, error) {
		if c.swept.Load() {
			return struct{}{}, nil
		}
		err := c.sweepNow()
		if err != nil {
			err = fmt.Errorf("repair clone %s: %w", c.key, err)
		}
		c.swept.Store(err == nil)
		return struct{}{}, err
	})
	return err
}

func (c *Clone) sweepNow() error {
	if ok, err := exists(c.dir); err != nil {
		return err
	} else if !ok {
		return c.forget()
	}
	unlock, err := c.lock(c.m.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.sweepStores(); err != nil {
		return err
	}
	failpoint.Hit("clone/sweep/stores")
	if err := c.sweepLayers("trees", c.trees, (*meta.Tx).DeleteTree); err != nil {
		return err
	}
	if err := c.sweepLayers("refs", c.gitLayers, (*meta.Tx).DeleteGitLayer); err != nil {
		return err
	}
	if err := c.trashUnless(c.lfsDir(), func(name string) bool { return !durable.IsTemp(name) }); err != nil {
		return err
	}
	return c.trashUnless(filepath.Join(c.dir, "store"), func(name string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rec == nil {
			return false
		}
		_, ok := c.rec.Stores[strings.TrimSuffix(name, ".git")]
		return ok && strings.HasSuffix(name, ".git")
	})
}

// sweepStores removes what a killed git left in the stores, and forgets those
// that are gone.
func (c *Clone) sweepStores() error {
	c.mu.Lock()
	if c.rec == nil {
		c.mu.Unlock()
		return c.forget()
	}
	rec := c.rec.Copy()
	c.mu.Unlock()
	lost := false
	for name := range rec.Stores {
		ok, err := exists(c.storeDir(name))
		if err == nil && ok {
			err = git.SweepStore(c.storeDir(name))
		}
		if err != nil {
			return err
		}
		if !ok {
			delete(rec.Stores, name)
			lost = true
		}
	}
	switch {
	case !lost:
		return nil
	case len(rec.Stores) == 0:
		return c.forget()
	}
	c.mu.Lock()
	c.rec = &rec
	rec = rec.Copy()
	c.mu.Unlock()
	return c.m.DB.Update(func(tx *meta.Tx) error { return tx.PutClone(rec) })
}

// sweepLayers drops records whose directory is gone or was never synced before
// a reboot, and trashes directories that no record names.
func (c *Clone) sweepLayers(sub string, known map[string]meta.Layer, del func(*meta.Tx, meta.Layer) error) error {
	dirs, err := os.ReadDir(filepath.Join(c.dir, sub))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	there := make(map[string]bool)
	for _, d := range dirs {
		there[d.Name()] = true
	}
	c.mu.Lock()
	var void []meta.Layer
	for id, l := range known {
		if !there[id] || !l.Durable && l.Boot != c.m.Boot {
			void = append(void, l)
			delete(known, id)
		}
	}
	for id, l := range known { // one that stands on what is gone
		if slices.ContainsFunc(l.Chain, func(below string) bool { _, ok := known[below]; return !ok }) {
			void = append(void, l)
			delete(known, id)
		}
	}
	c.mu.Unlock()
	if err := c.m.DB.Update(func(tx *meta.Tx) error {
		for _, l := range void {
			if err := del(tx, l); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	failpoint.Hit("clone/sweep/forgotten")
	return c.trashUnless(filepath.Join(c.dir, sub), func(id string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := known[id]
		return ok
	})
}

// trashUnless moves what is in dir to the trash, except what keep says.
func (c *Clone) trashUnless(dir string, keep func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if keep(e.Name()) {
			continue
		}
		if _, putErr := c.m.Trash.Put(filepath.Join(dir, e.Name()), "leftover"); putErr != nil {
			err = errors.Join(err, putErr)
		}
		failpoint.Hit("clone/sweep/trashed")
	}
	return err
}

// forget drops the records of a clone that has no store, but those of layers that
// a workspace stands on: they are complete in themselves.
func (c *Clone) forget() error {
	c.mu.Lock()
	gone := c.rec != nil
	c.rec = nil
	var layers, gitLayers []meta.Layer
	for id, l := range c.trees {
		if c.users[c.treeDir(id)] == 0 {
			layers = append(layers, l)
			delete(c.trees, id)
		}
	}
	for id, l := range c.gitLayers {
		if c.users[c.gitLayerDir(id)] == 0 {
			gitLayers = append(gitLayers, l)
			delete(c.gitLayers, id)
		}
	}
	c.mu.Unlock()
	if !gone {
		return nil
	}
	return c.m.DB.Update(func(tx *meta.Tx) error {
		for _, l := range layers {
			if err := tx.DeleteTree(l); err != nil {
				return err
			}
		}
		for _, l := range gitLayers {
			if err := tx.DeleteGitLayer(l); err != nil {
				return err
			}
		}
		return tx.DeleteClone(c.key)
	})
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
		c = m.get(key, volume.Subject(man.Subject), man.Repo)
	}
	if err := c.Sweep(ctx); err != nil {
		return err
	}
	unlock, err := c.lock(m.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c.mu.Lock()
	wanted := c.rec != nil || len(c.users) > 0
	c.mu.Unlock()
	if wanted {
		return nil
	}
	if _, err := m.Trash.Put(dir, "leftover"); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // the subject's, if this was its only clone
	return nil
}
