package verbs

import (
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
	discards := 0
	for _, w := range v.Workspaces.Workspaces() {
		if w.Volume != h.rec.Name || w.Clone != h.clone.Key {
			continue
		}
		if w.Phase == meta.Discarded {
			discards++
			discard.add(w.Size)
		} else {
			upper.add(w.Size)
		}
	}
	status["discards"] = discards
	store.show(status, "store")
	tree.show(status, "tree")
	cache.show(status, "cache")
	upper.show(status, "workspace")
	discard.show(status, "discard")
	if v.Warnings != nil {
		status["warnings"] = v.Warnings(h.rec.Name, h.clone.Key)
	}
}
