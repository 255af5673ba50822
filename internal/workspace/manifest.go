package workspace

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
)

const manifestName = "manifest.json"

// putManifest writes the record into the workspace's directory: synced where the
// workspace has to outlast the machine.
func (m *Manager) putManifest(rec meta.Workspace, synced bool) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	path := filepath.Join(m.dir(rec), manifestName)
	if synced {
		return durable.WriteFile(path, data, 0o600)
	}
	return durable.WriteVolatile(path, data, 0o600)
}

// updateManifest writes what has changed in a record. There is no need to say that
// a workspace has ended: without its mount, or without its volume, it has. A
// failure is no more than logged: manifests are for the day when the database is
// lost, and the disk may be full.
func (m *Manager) updateManifest(before, rec meta.Workspace) {
	if rec.Phase == meta.Ended {
		return
	}
	synced := before.Phase.Live() != rec.Phase.Live() || before.Volume != rec.Volume
	if err := m.putManifest(rec, synced); err != nil {
		m.Log.WithError(err).WithField("workspace", rec.ID).Warn("write the manifest of a workspace")
	}
}

// lasts reports whether a workspace outlasts the machine's halt: its record says so
// only once it is on disk, with all layers that it stands on.
func lasts(rec meta.Workspace) bool { return isKept(rec) || rec.Phase == meta.Discarded }

// Rebuild returns the records of the workspaces that the directories below root
// hold, for a database that was lost, and of the layers that they stand on: those
// of this boot, and those of workspaces that last; nothing says whether others are
// on disk. Not all manifests are synced: one that can't be read is of an earlier
// boot.
func Rebuild(root, boot string) (meta.State, error) {
	state := meta.State{
		Workspaces: make(map[string]meta.Workspace), Trees: make(map[string]meta.Layer), GitLayers: make(map[string]meta.Layer),
	}
	paths, err := filepath.Glob(filepath.Join(root, "clones", "*", "*", "workspaces", "*", manifestName))
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
		if w.Boot != boot && !lasts(w) {
			continue
		}
		for i := range w.Chain { // of those that it stands on the commits are not known
			l := meta.Layer{Kind: meta.Tree, Clone: w.Clone, ID: w.Chain[i], Chain: w.Chain[i:], Boot: boot, Durable: lasts(w)}
			if i == 0 {
				l.Commit, l.TracksCache = w.Commit, tracksCache(layer.Lower(root, w.Clone, meta.Tree, w.Chain...))
			}
			addLayer(state.Trees, l)
		}
		addLayer(state.GitLayers, meta.Layer{
			Kind: meta.GitLayer, Clone: w.Clone, ID: w.GitLayer, Commit: w.Commit, Snapshot: "unknown", Boot: boot, Durable: lasts(w),
		})
	}
	return state, nil
}

// addLayer adds what a workspace knows of a layer to what others do.
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

// tracksCache reports whether a tree has a .hdcache of the repository's: what its
// topmost layer that says anything says, which may be a whiteout.
func tracksCache(lower []string) bool {
	for _, dir := range lower {
		if info, err := os.Lstat(filepath.Join(dir, tree.CacheLink)); err == nil {
			return info.Mode()&os.ModeCharDevice == 0
		}
	}
	return false
}
