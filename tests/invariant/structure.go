package invariant

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// Structure compares the directories of the data directory root with its records. The error lists
// every problem.
func Structure(root string) error { return structure(root, false) }

// Ended is Structure for a plugin that has ended. The trash may have what cancelled work left: the next start deletes it.
func Ended(root string) error { return structure(root, true) }

func structure(root string, ended bool) error {
	d, err := read(root)
	if err != nil {
		return err
	}
	d.volumes()
	for _, name := range d.names() {
		if durable.IsTemp(name) {
			d.failf("%s has a temporary name", d.path(name))
		}
	}
	if left := d.names("trash"); len(left) > 0 && !ended {
		d.failf("the trash has %d entries, such as %s", len(left), left[0])
	}
	if left := d.names("quarantine"); len(left) > 0 {
		d.failf("the quarantine has %d entries, such as %s", len(left), left[0])
	}
	found := make(map[string]bool)
	layers := map[string]map[string]map[string]bool{"trees": idsByClone(d.Trees), "refs": idsByClone(d.GitLayers), "warm": idsByClone(d.WarmLayers)}
	for _, subject := range d.names("clones") {
		hashes := d.names("clones", subject)
		if len(hashes) == 0 {
			d.failf("%s is empty", d.path("clones", subject))
		}
		for _, hash := range hashes {
			found[subject+"/"+hash] = true
			key := subject + "/" + hash
			d.clone(key)
			for dir, ids := range layers {
				d.compare(key, dir, ids[key])
			}
		}
	}
	for key := range d.Clones {
		if !found[key] {
			d.failf("clone %s has no directory", key)
		}
	}
	d.audit()
	d.chains()
	d.mounts()
	return errors.Join(d.problems...)
}

// volumes compares the records of volumes with their manifests.
func (d *data) volumes() {
	manifests := make(map[string]bool)
	for _, name := range d.names("volumes") {
		content, err := os.ReadFile(d.path("volumes", name))
		var v meta.Volume
		if err == nil {
			err = json.Unmarshal(content, &v)
		}
		if err != nil {
			d.failf("manifest %s: %w", name, err)
			continue
		}
		manifests[v.Name] = true
		if _, ok := d.Volumes[v.Name]; !ok {
			d.failf("manifest %s is of volume %q, which has no record", name, v.Name)
		}
	}
	for name := range d.Volumes {
		if !manifests[name] {
			d.failf("volume %q has no manifest", name)
		}
	}
}

// clone compares what is in a clone's directory with its records.
func (d *data) clone(key string) {
	rec, known := d.Clones[key]
	if !known && len(d.names("clones", key, "workspaces")) == 0 {
		d.failf("%s has no record", d.path("clones", key))
	}
	stores := make(map[string]bool)
	for name := range rec.Stores {
		stores[name+".git"] = true
	}
	d.compare(key, "store", stores)
	for name := range stores {
		for _, pattern := range []string{"*.lock", "objects/pack/tmp_*", "objects/pack/*.lock"} {
			if left, _ := filepath.Glob(d.path("clones", key, "store", name, pattern)); len(left) > 0 {
				d.failf("%s was left by a git that was killed", left[0])
			}
		}
	}
	workspaces := make(map[string]bool)
	for id, w := range d.Workspaces {
		if w.Clone == key {
			workspaces[id] = true
		}
	}
	d.compare(key, "workspaces", workspaces)
	for _, sub := range d.names("clones", key) {
		if !slices.Contains([]string{"manifest.json", "store", "trees", "refs", "warm", "lfs", "workspaces"}, sub) {
			d.failf("%s does not belong in a clone", d.path("clones", key, sub))
		}
	}
	for _, name := range d.names("clones", key, "lfs") {
		if durable.IsTemp(name) {
			d.failf("%s has a temporary name", d.path("clones", key, "lfs", name))
		}
	}
}

// compare compares the entries of a directory of a clone with the names in its records.
func (d *data) compare(key, sub string, recorded map[string]bool) {
	present := make(map[string]bool)
	for _, name := range d.names("clones", key, sub) {
		present[name] = true
		if !recorded[name] {
			d.failf("%s has no record", d.path("clones", key, sub, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if !present[name] {
			d.failf("%s has a record and is missing", d.path("clones", key, sub, name))
		}
	}
}

// idsByClone returns the IDs of records by the clones that they belong to.
func idsByClone[T any](records map[string]T) map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for full := range records {
		clone, id := split(full)
		if all[clone] == nil {
			all[clone] = make(map[string]bool)
		}
		all[clone][id] = true
	}
	return all
}

// chains checks that every layer of every chain exists.
func (d *data) chains() {
	for key, t := range d.Trees {
		if len(t.Chain) == 0 || t.Chain[0] != t.ID {
			d.failf("tree %s: the chain %q does not begin with the tree itself", key, t.Chain)
		}
		d.wantLayers("tree "+key, t.Clone, "trees", t.Chain...)
	}
	for key, h := range d.WarmHeads {
		d.wantLayers("warm head "+key, h.Clone, "warm", h.Chain...)
	}
	for id, w := range d.Workspaces {
		d.wantLayers("workspace "+id, w.Clone, "trees", w.Chain...)
		d.wantLayers("workspace "+id, w.Clone, "refs", w.GitLayer)
		for _, p := range w.Warm {
			d.wantLayers("workspace "+id, w.Clone, "warm", p.Chain...)
			if p.Base.Times != "" {
				d.wantLayers("workspace "+id, w.Clone, "warm", p.Base.Times)
			}
		}
	}
}

// wantLayers checks that the layers of a tree, a warm head or a workspace exist.
func (d *data) wantLayers(what, clone, sub string, ids ...string) {
	for _, id := range ids {
		if !d.exists("clones", clone, sub, id) {
			d.failf("%s stands on %s/%s, which is gone", what, sub, id)
		}
	}
}

// mounts compares the mount table with the phases of the workspaces, and finds workspaces that are
// neither leased nor kept.
func (d *data) mounts() {
	points, err := overlay.Mounts(d.root)
	if err != nil {
		d.failf("%w", err)
		return
	}
	mounted := make(map[string]int)
	for _, p := range points {
		mounted[p.Path]++
	}
	root, err := filepath.EvalSymlinks(d.root)
	if err != nil {
		d.failf("%w", err)
		return
	}
	for _, own := range []string{root, filepath.Join(root, "mnt")} { // mnt is a tmpfs
		delete(mounted, own)
	}
	standing := make(meta.Standing)
	for _, w := range d.Workspaces {
		standing.Add(&w, 1)
	}
	needed := make(map[string]bool) // uppers
	for id, w := range d.Workspaces {
		dir := filepath.Join(root, "clones", w.Clone, "workspaces", id)
		tree := filepath.Join(root, "mnt", id)
		leased, kept := len(w.Leases) > 0, w.Phase.Live() && w.Mode == "keep"
		n := mounted[tree]
		switch {
		case w.Phase == meta.Mounted && n != 1, w.Phase != meta.Mounted && n > 0:
			d.failf("workspace %s of volume %q, phase %s, leases %v, is mounted %d times", id, w.Volume, w.Phase, w.Leases, n)
		case w.Phase == meta.Ended, w.Phase.Live() && !leased && !kept:
			d.failf("workspace %s of volume %q has ended and still exists", id, w.Volume)
		}
		if w.Phase == meta.Checkpoint && len(w.From) >= MostBelow && !standing.On(w.Stack()...) {
			d.failf("checkpoint %s stands on %d others and is not merged with them", id, len(w.From))
		}
		for _, name := range uppers(w) {
			needed[filepath.Join(filepath.Dir(dir), name)] = true
			if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), name)); err != nil {
				d.failf("workspace %s of volume %q: %w", id, w.Volume, err)
			}
		}
		if w.Phase == meta.Mounted {
			for path := range mounted {
				if path == tree || strings.HasPrefix(path, tree+"/") {
					delete(mounted, path)
				}
			}
		}
	}
	for id, w := range d.Workspaces {
		for _, name := range []string{"upper", "merged"} {
			dir := filepath.Join(root, "clones", w.Clone, "workspaces", id, name)
			if _, err := os.Lstat(dir); err == nil && !needed[dir] {
				d.failf("%s is needed by nothing", dir)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(mounted)) {
		d.failf("%s is mounted and belongs to no workspace", path)
	}
}
