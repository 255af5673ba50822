package clone

import (
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/meta"
)

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
