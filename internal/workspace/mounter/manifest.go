package mounter

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/warm"
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
		Trees:      make(map[string]meta.Layer), GitLayers: make(map[string]meta.Layer), WarmLayers: make(map[string]meta.Layer),
	}
	manifests, err := place.All(root, place.Workspaces+"/*/"+ManifestName)
	if err != nil {
		return state, err
	}
	for _, m := range manifests {
		data, err := os.ReadFile(m.Path)
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
		for _, l := range warmLayers(w) {
			l.Boot, l.Durable = boot, w.Lasts()
			addLayer(state.WarmLayers, l)
		}
	}
	return state, nil
}

// warmLayers returns the warm layers of a workspace. No head has them any more, so they go with the workspace.
func warmLayers(w meta.Workspace) (list []meta.Layer) {
	for _, p := range w.Warm {
		for i, id := range p.Chain {
			l := meta.Layer{Kind: meta.WarmLayer, Clone: w.Clone, ID: id}
			switch {
			case warm.IsCache(p) && i == len(p.Chain)-1:
				l.Cache = meta.CacheBase
			case warm.IsCache(p):
				l.Cache = meta.CacheFiles
			}
			list = append(list, l)
		}
	}
	if len(w.Warm) > 0 && w.Warm[0].Base.Times != "" {
		list = append(list, meta.Layer{Kind: meta.WarmLayer, Clone: w.Clone, ID: w.Warm[0].Base.Times})
	}
	return list
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
		if info, err := os.Lstat(filepath.Join(dir, cache.Link)); err == nil {
			return info.Mode()&os.ModeCharDevice == 0
		}
	}
	return false
}

// KeptBy returns the ID of the workspace that each volume keeps, by volume. It is the
// newest one, of the volume's own clone. A rebuilt database may have others, because
// manifests are not as exact as records.
func KeptBy(state meta.State) map[string]string {
	kept := make(map[string]string)
	for id, rec := range state.Workspaces {
		v, ok := state.Volumes[rec.Volume]
		if !ok || !rec.Phase.Live() || !rec.Kept() {
			continue
		}
		o, err := volume.Parse(v.Options, nil, volume.AllSchemes())
		if err != nil || o.Mode != volume.ModeKeep || clone.Key(o.Subject, o.Repo) != rec.Clone {
			continue
		}
		if other, ok := kept[rec.Volume]; !ok || state.Workspaces[other].MountedAt.Before(rec.MountedAt) {
			kept[rec.Volume] = id
		}
	}
	return kept
}
