package verbs

import (
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/meta"
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
// workspaces and discards. The sizes are measured in the background.
func (v *Volumes) sizes(h *handle, status map[string]any) {
	var store, tree, cache, upper, discard total
	if info, ok := h.clone.Info(); ok {
		for _, size := range info.Stores {
			store.add(size)
		}
		for _, l := range info.Layers {
			tree.add(l.Size)
		}
		for _, size := range info.Caches {
			cache.add(size)
		}
	}
	discards, warnings := 0, []string{}
	for _, w := range v.Workspaces.Workspaces() {
		if w.Volume != h.rec.Name || w.Clone != h.clone.Key {
			continue
		}
		if w.Phase == meta.Discarded {
			discards++
			discard.add(w.Size)
			continue
		}
		upper.add(w.Size)
		if text := ownerWarning(w); text != "" && !slices.Contains(warnings, text) {
			warnings = append(warnings, text)
		}
	}
	status["discards"] = discards
	store.show(status, "store")
	tree.show(status, "tree")
	cache.show(status, "cache")
	upper.show(status, "workspace")
	discard.show(status, "discard")
	if v.Warnings != nil {
		warnings = append(v.Warnings(h.rec.Name, h.clone.Key), warnings...)
	}
	if v.Warnings != nil || len(warnings) > 0 {
		status["warnings"] = warnings
	}
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
