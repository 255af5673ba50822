package clone

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
)

// layerSet are the layers of one kind that a clone has: its trees, or its git
// layers. Memory, records and directories change together while Clone.publishing
// is held; the maps are guarded by Clone.mu.
type layerSet struct {
	kind string // in words
	dir  string // holds a directory for each, named by its ID
	put  func(*meta.Tx, meta.Layer) error
	del  func(*meta.Tx, meta.Layer) error

	known map[string]meta.Layer // by ID
	users map[string]int        // by ID: who stands on the directory
	built map[string]Spec       // of trees, by ID: may have to be flattened
}

func newTrees(clone string) *layerSet {
	return &layerSet{
		kind: "tree", dir: filepath.Join(clone, "trees"), put: (*meta.Tx).PutTree, del: (*meta.Tx).DeleteTree,
		known: make(map[string]meta.Layer), users: make(map[string]int), built: make(map[string]Spec),
	}
}

func newGitLayers(clone string) *layerSet {
	return &layerSet{
		kind: "git layer", dir: filepath.Join(clone, "refs"), put: (*meta.Tx).PutGitLayer, del: (*meta.Tx).DeleteGitLayer,
		known: make(map[string]meta.Layer), users: make(map[string]int),
	}
}

// path returns the directory of a layer.
func (s *layerSet) path(id string) string { return filepath.Join(s.dir, id) }

// paths returns the directories of a chain.
func (s *layerSet) paths(chain []string) []string {
	dirs := make([]string, len(chain))
	for i, id := range chain {
		dirs[i] = s.path(id)
	}
	return dirs
}

// hold is called with Clone.mu held, as all that follow.
func (s *layerSet) hold(ids ...string) {
	for _, id := range ids {
		s.users[id]++
	}
}

func (s *layerSet) drop(ids ...string) {
	for _, id := range ids {
		if s.users[id]--; s.users[id] <= 0 {
			delete(s.users, id)
		}
	}
}

// letGo ends a hold of layers. It is called without mu held.
func (c *Clone) letGo(set *layerSet, ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set.drop(ids...)
}

// members returns those of the layers for which want says so; nil is all.
func (s *layerSet) members(want func(meta.Layer) bool) []member {
	var list []member
	for _, l := range s.known {
		if want == nil || want(l) {
			list = append(list, member{s, l})
		}
	}
	return list
}

// member is a layer, and the set that it is of.
type member struct {
	set *layerSet
	meta.Layer
}

func (m member) path() string { return m.set.path(m.ID) }

// sets are all layers of the clone.
func (c *Clone) sets() [2]*layerSet { return [2]*layerSet{c.trees, c.gitLayers} }

// find returns what is known of a layer.
func (c *Clone) find(set *layerSet, id string) (meta.Layer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := set.known[id]
	return l, ok
}

// takeOut removes layers from memory, so that no Prepare can hold them. It is
// called with mu held.
func takeOut(list []member) {
	for _, m := range list {
		delete(m.set.known, m.ID)
		delete(m.set.built, m.ID)
	}
}

// putBack undoes takeOut. It is called with mu held.
func putBack(list []member) {
	for _, m := range list {
		m.set.known[m.ID] = m.Layer
	}
}

// remove deletes layers that are out of memory: the records, which are back in
// memory when that fails, and then the directories. It is called with publishing
// held.
func (c *Clone) remove(list []member) error {
	if len(list) == 0 {
		return nil
	}
	if err := c.m.DB.Update(func(tx *meta.Tx) error { return deleteRecords(tx, list) }); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		putBack(list)
		return err
	}
	failpoint.Hit("clone/collect/recorded")
	var errs []error
	for _, m := range list {
		err := c.m.sizedToTrash(m.path(), "layer", m.Size.Size)
		if err != nil {
			c.m.Background(func(ctx context.Context) { trash.Again(ctx, func() error { return c.trashLeft(m) }) })
		}
		errs = append(errs, err)
		failpoint.Hit("clone/collect/trashed")
	}
	return errors.Join(errs...)
}

// trashLeft trashes the directory of a layer that has no record any more, unless it
// was built again: the new one has the same ID.
func (c *Clone) trashLeft(m member) error {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	c.mu.Lock()
	_, known := m.set.known[m.ID]
	known = known || m.set.users[m.ID] > 0
	c.mu.Unlock()
	if known {
		return nil
	}
	return c.m.sizedToTrash(m.path(), "layer", m.Size.Size)
}

func deleteRecords(tx *meta.Tx, list []member) error {
	for _, m := range list {
		if err := m.set.del(tx, m.Layer); err != nil {
			return err
		}
	}
	return nil
}

// toTrash gives a directory to the trash; one that is gone is no error.
func (m *Manager) toTrash(path, name string) error { return m.sizedToTrash(path, name, disk.Size{}) }

// sizedToTrash is toTrash of something whose size is known, or zero. What the janitor
// evicts has to count as trash at once, or its next plan would evict as much again.
func (m *Manager) sizedToTrash(path, name string, size disk.Size) error {
	_, err := m.Trash.PutSized(path, name, size)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
