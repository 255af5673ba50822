package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Sweep makes the clone's directories and its records agree, once: leftovers of
// an earlier run go to the trash, records without a directory are dropped. It
// leaves workspaces alone. Later calls return the first one's result.
func (c *Clone) Sweep() error {
	c.sweep.Do(func() {
		if c.sweepOK = c.sweepNow(); c.sweepOK != nil {
			c.sweepOK = fmt.Errorf("repair clone %s: %w", c.key, c.sweepOK)
		}
	})
	return c.sweepOK
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
	}
	return err
}

// forget drops the records of a clone that has no store.
func (c *Clone) forget() error {
	c.mu.Lock()
	gone := c.rec != nil
	layers := make([]meta.Layer, 0, len(c.trees))
	for _, l := range c.trees {
		layers = append(layers, l)
	}
	gitLayers := make([]meta.Layer, 0, len(c.gitLayers))
	for _, l := range c.gitLayers {
		gitLayers = append(gitLayers, l)
	}
	c.rec = nil
	clear(c.trees)
	clear(c.gitLayers)
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
		errs = append(errs, c.Sweep())
	}
	dirs, err := filepath.Glob(filepath.Join(m.Root, "clones", "*", "*"))
	errs = append(errs, err)
	for _, dir := range dirs {
		key, err := filepath.Rel(filepath.Join(m.Root, "clones"), dir)
		if err != nil {
			return err
		}
		errs = append(errs, m.sweepStranger(key, dir))
	}
	return errors.Join(errs...)
}

// sweepStranger trashes a clone's directory that no record names, unless a
// Prepare has begun to fill it since the start.
func (m *Manager) sweepStranger(key, dir string) error {
	man, err := readManifest(dir)
	if err != nil {
		_, err := m.Trash.Put(dir, "leftover")
		return err
	}
	c := m.get(key, volume.Subject(man.Subject), man.Repo)
	if err := c.Sweep(); err != nil {
		return err
	}
	unlock, err := c.lock(m.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c.mu.Lock()
	wanted := c.rec != nil
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

// Rebuild returns records for the clones that the directories below root hold,
// for a database that was lost. Their refs are not known: the next Mount
// fetches, which costs little when the objects are there. Trees are built again.
func Rebuild(root string) (map[string]meta.Clone, error) {
	recs := make(map[string]meta.Clone)
	stores, err := filepath.Glob(filepath.Join(root, "clones", "*", "*", "store", "*.git"))
	if err != nil {
		return nil, err
	}
	for _, store := range stores {
		dir := filepath.Dir(filepath.Dir(store))
		man, err := readManifest(dir)
		if err != nil {
			continue // the sweep removes it
		}
		key := filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir))
		rec, ok := recs[key]
		if !ok {
			rec = meta.Clone{
				Key: key, Subject: man.Subject, Repo: man.Repo, CreatedAt: man.CreatedAt,
				FirstMount: man.CreatedAt, Stores: make(map[string]meta.Store),
			}
			recs[key] = rec
		}
		rec.Stores[strings.TrimSuffix(filepath.Base(store), ".git")] = meta.Store{Refs: make(map[string]meta.Resolution)}
	}
	return recs, nil
}

// syncSoon has the layers that were just made synced in the background.
func (m *Manager) syncSoon() {
	select {
	case m.syncs <- struct{}{}:
	default:
	}
}

// syncLayers makes layers durable: one syncfs for all that wait, and then their
// records say so.
func (m *Manager) syncLayers() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.syncs:
		}
		if err := m.syncNow(); err != nil {
			m.Log.WithError(err).Warn("sync layers: they are good for this boot only")
		}
	}
}

func (m *Manager) syncNow() error {
	type pending struct {
		c     *Clone
		known map[string]meta.Layer
		put   func(*meta.Tx, meta.Layer) error
		layer meta.Layer
	}
	var list []pending
	for _, c := range m.all() {
		c.mu.Lock()
		for _, l := range c.trees {
			if !l.Durable {
				list = append(list, pending{c, c.trees, (*meta.Tx).PutTree, l})
			}
		}
		for _, l := range c.gitLayers {
			if !l.Durable {
				list = append(list, pending{c, c.gitLayers, (*meta.Tx).PutGitLayer, l})
			}
		}
		c.mu.Unlock()
	}
	if len(list) == 0 {
		return nil
	}
	if err := durable.SyncFS(m.Root); err != nil {
		return err
	}
	return m.DB.Update(func(tx *meta.Tx) error {
		for _, p := range list {
			p.c.mu.Lock()
			_, there := p.known[p.layer.ID]
			p.layer.Durable = true
			if there {
				p.known[p.layer.ID] = p.layer
			}
			p.c.mu.Unlock()
			if !there {
				continue
			}
			if err := p.put(tx, p.layer); err != nil {
				return err
			}
		}
		return nil
	})
}

// collectSoon trashes, in the background, layers that nothing needs any more:
// no workspace stands on them, and no ref that a volume has named is at their
// commit.
func (c *Clone) collectSoon() {
	if len(c.unneeded(false)) == 0 {
		return
	}
	c.m.Background(func(ctx context.Context) {
		_, err := share(ctx, c.m, "collect\x00"+c.key, func(context.Context) (struct{}, error) {
			return struct{}{}, c.collect()
		})
		if err != nil && ctx.Err() == nil {
			c.m.Log.WithError(err).WithField("clone", c.key).Warn("collect layers")
		}
	})
}

// unneeded lists layers that nothing needs; with remove it also takes them out
// of memory, so that no Prepare can hold them.
func (c *Clone) unneeded(remove bool) []meta.Layer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec == nil {
		return nil
	}
	current := make(map[string]bool)
	for _, store := range c.rec.Stores {
		for _, r := range store.Refs {
			current[r.Commit] = true
		}
	}
	var list []meta.Layer
	for id, l := range c.trees {
		if !current[l.Commit] && c.users[c.treeDir(id)] == 0 {
			list = append(list, l)
			if remove {
				delete(c.trees, id)
			}
		}
	}
	for id, l := range c.gitLayers {
		if !(current[l.Commit] && l.Snapshot == c.rec.Stores[l.Store].Snapshot) && c.users[c.gitLayerDir(id)] == 0 {
			list = append(list, l)
			if remove {
				delete(c.gitLayers, id)
			}
		}
	}
	return list
}

func (c *Clone) collect() error {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	list := c.unneeded(true)
	if err := c.m.DB.Update(func(tx *meta.Tx) error {
		for _, l := range list {
			del := tx.DeleteTree
			if l.Snapshot != "" {
				del = tx.DeleteGitLayer
			}
			if err := del(l); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	var errs []error
	for _, l := range list {
		dir := c.treeDir(l.ID)
		if l.Snapshot != "" {
			dir = c.gitLayerDir(l.ID)
		}
		_, err := c.m.Trash.Put(dir, "layer")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
