package clone

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
)

// makeDir makes the clone's directories and its manifest. syncDir syncs them.
func (c *Clone) makeDir() error {
	if err := c.makeDirs(); err != nil {
		return err
	}
	now, write := c.m.config.Now(), durable.WriteFile
	c.mu.Lock()
	if !c.remote.Fetched() {
		write = durable.WriteVolatile // no other store needs it before syncDir
	}
	man := manifest{Subject: c.rec.Subject, Repo: c.rec.Repo, CreatedAt: now}
	c.mu.Unlock()
	data, err := json.MarshalIndent(man, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(c.Dir, manifestName)
	err = write(path, append(data, '\n'), 0o644)
	durable.WriteBack(path) // during the fetch
	return err
}

// syncDir syncs what makeDir made. It also syncs the directories that were there before,
// because the clone that made them may not have done so yet. The clone counts as made then, at the end of the first
// fetch, which may have taken an hour.
func (c *Clone) syncDir() error {
	now := c.m.config.Now()
	c.mu.Lock()
	if !c.remote.Fetched() {
		c.rec.CreatedAt = now
	}
	c.mu.Unlock()
	if err := durable.SyncTree(filepath.Join(c.Dir, manifestName)); err != nil {
		return err
	}
	root := filepath.Clean(c.m.config.Root)
	for dir := c.Dir; ; dir = filepath.Dir(dir) {
		if err := durable.SyncDir(dir); err != nil || dir == root {
			return err
		}
	}
}

// makeDirs makes the clone's directories. It tries again because the subject's directory
// is removed with its last clone, which may be at this moment.
func (c *Clone) makeDirs() (err error) {
	for range 3 {
		for _, sub := range cloneDirs {
			if err = durable.MkdirVolatile(filepath.Join(c.Dir, sub), 0o755); err != nil {
				break
			}
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

var cloneDirs = []string{place.Stores, place.Workspaces}

// removeDir removes what makeDir made, unless the directory has other contents. It does nothing
// if the clone has a store, such as the cold one: workspaces need the directories.
func (c *Clone) removeDir() error {
	if c.remote.Fetched() {
		return nil
	}
	for _, sub := range cloneDirs {
		// If it is not empty, it is from an earlier clone: the sweep handles it.
		_ = os.Remove(filepath.Join(c.Dir, sub))
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 1 {
		return err
	}
	if err := os.Remove(filepath.Join(c.Dir, manifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_ = os.Remove(c.Dir)
	_ = os.Remove(filepath.Dir(c.Dir)) // the subject's, if it is empty now
	return nil
}

// manifest describes a clone's directory, so that a lost database can be rebuilt.
type manifest struct {
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"` // the normalized URL
	CreatedAt time.Time `json:"created_at"`
}

const manifestName = "manifest.json"

func readManifest(dir string) (m manifest, err error) {
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Rebuild returns the records of the clones below root, for a lost database. The records
// have no refs: the next Mount fetches, which is cheap if the objects are there. Trees are
// built again.
func Rebuild(root string) (map[string]meta.Clone, error) {
	recs := make(map[string]meta.Clone)
	stores, err := place.All(root, place.Stores+"/*.git")
	if err != nil {
		return nil, err
	}
	for _, store := range stores {
		man, err := readManifest(place.Clone(root, store.Key))
		if err != nil {
			continue // the sweep removes it
		}
		rec, ok := recs[store.Key]
		if !ok {
			rec = meta.Clone{
				Key: store.Key, Subject: man.Subject, Repo: man.Repo, CreatedAt: man.CreatedAt,
				FirstMount: man.CreatedAt, Stores: make(map[string]meta.Store),
			}
			recs[store.Key] = rec
		}
		rec.Stores[strings.TrimSuffix(filepath.Base(store.Path), ".git")] = meta.Store{Refs: make(map[string]meta.Resolution)}
	}
	return recs, nil
}
