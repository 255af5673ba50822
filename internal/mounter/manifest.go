package mounter

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
)

// PutManifest writes the record of a workspace to path. If synced is set, it is on disk
// afterwards.
func PutManifest(path string, rec meta.Workspace, synced bool) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if synced {
		return durable.WriteFile(path, data, 0o600)
	}
	return durable.WriteVolatile(path, data, 0o600)
}

// Rebuild returns the records of the workspaces below root and of their layers, for a
// database that was lost. It includes only layers of this boot and of workspaces that
// last, because others may not be on disk. Not all manifests are synced, so a manifest
// that can't be read is of an earlier boot.
func Rebuild(root, boot string) (meta.State, error) {
	state := meta.State{
		Workspaces: make(map[string]meta.Workspace),
		Trees:      make(map[string]meta.Layer), GitLayers: make(map[string]meta.Layer),
	}
	paths, err := filepath.Glob(filepath.Join(root, "clones", "*", "*", "workspaces", "*", ManifestName))
	if err != nil {
		return state, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return state, err
		}
		var w meta.Workspace
		if err := json.Unmarshal(data, &w); err != nil {
			continue // the sweep removes the directory
		}
		state.Workspaces[w.ID] = w
		if w.Boot != boot && !w.Lasts() {
			continue
		}
		for i := range w.Chain { // the commits of the layers below the first are unknown
			l := meta.Layer{Kind: meta.Tree, Clone: w.Clone, ID: w.Chain[i], Chain: w.Chain[i:], Boot: boot, Durable: w.Lasts()}
			if i == 0 {
				l.Commit, l.TracksCache = w.Commit, tracksCache(layer.Lower(root, w.Clone, meta.Tree, w.Chain...))
			}
			addLayer(state.Trees, l)
		}
		addLayer(state.GitLayers, meta.Layer{
			Kind: meta.GitLayer, Clone: w.Clone, ID: w.GitLayer, Commit: w.Commit, Snapshot: "unknown", Boot: boot, Durable: w.Lasts(),
		})
	}
	return state, nil
}

// addLayer adds a layer to layers, or merges it with what another workspace knows of it.
func addLayer(layers map[string]meta.Layer, l meta.Layer) {
	key := l.Clone + "/" + l.ID
	if other, ok := layers[key]; ok {
		l.Durable = l.Durable || other.Durable
		if l.Commit == "" {
			l.Commit, l.TracksCache = other.Commit, other.TracksCache
		}
	}
	layers[key] = l
}

// tracksCache reports whether the repository tracks .hdcache. The topmost layer of the tree
// that has an entry of that name decides; the entry may be a whiteout.
func tracksCache(lower []string) bool {
	for _, dir := range lower {
		if info, err := os.Lstat(filepath.Join(dir, tree.CacheLink)); err == nil {
			return info.Mode()&os.ModeCharDevice == 0
		}
	}
	return false
}
