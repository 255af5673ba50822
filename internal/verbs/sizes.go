package verbs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// total is a sum of sizes for Status.
type total struct {
	bytes   int64
	at      time.Time // the oldest measurement
	unknown bool      // a size is not measured yet
}

func (t *total) add(m meta.Measured) {
	switch {
	case m.At.IsZero():
		t.unknown = true
	case t.at.IsZero() || m.At.Before(t.at):
		t.at = m.At
	}
	t.bytes += m.Bytes
}

// show writes the sum as name_bytes, and the time of the oldest measurement as
// name_measured_at: null until everything is measured.
func (t total) show(status map[string]any, name string) {
	status[name+"_bytes"], status[name+"_measured_at"] = t.bytes, nil
	if !t.unknown && !t.at.IsZero() {
		status[name+"_measured_at"] = t.at.UTC().Format(time.RFC3339)
	}
}

// sizes adds to a volume's status the size of its clone on disk, and of the data written to its
// workspaces and checkpoints, and warnings. mounted is how many workspaces have leases, and commit that of the next one. The
// sizes are measured in the background.
func (v *Volumes) sizes(h *handle, mounted int, commit string, status map[string]any) {
	var store, tree, upper, checkpoint total
	if info, ok := h.clone.Info(); ok {
		for _, size := range info.Stores {
			store.add(size)
		}
		for _, l := range info.Layers {
			tree.add(l.Size)
		}
	}
	checkpoints, inodes, warnings := 0, int64(0), []string{}
	if text := v.config.Limits.Ignored(); text != "" {
		warnings = append(warnings, text)
	}
	var missing []meta.MissingSubmodule
	for _, w := range v.config.Workspaces.Workspaces() {
		if w.Volume != h.rec.Name || w.Clone != h.clone.Key {
			continue
		}
		if w.Phase == meta.Checkpoint {
			checkpoints++
			checkpoint.add(w.Size)
			continue
		}
		upper.add(w.Size)
		inodes += w.Size.Inodes
		if w.Phase != meta.Ended {
			missing = append(missing, w.Missing...)
		}
		for _, text := range slices.Concat(v.warmWarnings(w), v.cacheWarnings(w), []string{ownerWarning(w)}) {
			if text != "" && !slices.Contains(warnings, text) {
				warnings = append(warnings, text)
			}
		}
	}
	if mounted > 1 && h.opts.Mode == volume.ModePrivate && volume.IsGenerated(h.rec.Name) {
		warnings = append(warnings, fmt.Sprintf("%d containers have this volume, which has no name, and each has a checkout of its own: "+
			"one that was started with --volumes-from does not see the other's files; create the volume with mode=shared for that", mounted))
	}
	status["checkpoints"] = checkpoints
	store.show(status, "store")
	tree.show(status, "tree")
	status["cache_bytes"] = v.config.Workspaces.Warm().CacheSize(h.clone.Key).Bytes
	status["cache_unpublished"] = v.config.Workspaces.Unpublished(h.clone.Key)
	upper.show(status, "workspace")
	status["workspace_inodes"] = inodes
	checkpoint.show(status, "checkpoint")
	if len(missing) == 0 { // of the next workspace
		missing = h.clone.Trees.Missing(h.spec(), commit)
	}
	for _, m := range missing {
		if text := moduleWarning(m); !slices.Contains(warnings, text) {
			warnings = append(warnings, text)
		}
	}
	if v.config.Warnings != nil {
		warnings = append(v.config.Warnings(h.rec.Name, h.clone.Key), warnings...)
	}
	if v.config.Warnings != nil || len(warnings) > 0 {
		status["warnings"] = warnings
	}
}

// moduleWarning says that a submodule is missing.
func moduleWarning(m meta.MissingSubmodule) string {
	if m.Commit == "" {
		return fmt.Sprintf("the option submodules names %q: %s", m.Path, m.Why)
	}
	text := fmt.Sprintf("the directory of the submodule %q is empty: %s", m.Path, m.Why)
	switch {
	case m.Late:
		text += "; it is tried again for a new workspace after an hour"
	case m.URL != "":
		text += "; it is tried again for a new workspace when the last try is a minute old"
	}
	return text
}

// cacheWarnings says what of the cache of a live workspace was not published, and what would not be.
func (v *Volumes) cacheWarnings(w meta.Workspace) (list []string) {
	left, forecast := v.config.Workspaces.LeftOut(w.ID)
	if len(left) > 0 {
		list = append(list, "not all that is new in the cache of a workspace was published: "+strings.Join(left, "; "))
	}
	if len(forecast) > 0 {
		list = append(list, "not all that is new in the cache of a workspace can be published as it is now: "+strings.Join(forecast, "; "))
	}
	return list
}

// ownerWarning says that another uid than the volume's wrote files of a workspace; empty if none
// was found.
func ownerWarning(w meta.Workspace) string {
	if w.Foreign == nil {
		return ""
	}
	return fmt.Sprintf("files of a workspace belong to uid %d, and the volume has uid=%d: git in a container says \"dubious ownership\" of what belongs to another user; "+
		"run the container as uid %d, or create the volume with the options uid=%d and gid of the user that runs in it", *w.Foreign, w.UID, w.UID, *w.Foreign)
}
