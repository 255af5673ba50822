package driver

import (
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// total sums up sizes for Status, and says as of when.
type total struct {
	bytes   int64
	at      time.Time // the oldest measurement
	unknown bool      // something is not measured yet
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

// show writes the sum as name_bytes, and when it was measured as
// name_measured_at: null while not all of it is.
func (t total) show(status map[string]any, name string) {
	status[name+"_bytes"], status[name+"_measured_at"] = t.bytes, nil
	if !t.unknown && !t.at.IsZero() {
		status[name+"_measured_at"] = t.at.UTC().Format(time.RFC3339)
	}
}

// sizes adds to a volume's status what its clone takes on disk, and what was
// written to its own workspaces and is left in its discards. It answers from
// memory: what is measured in the background.
func (d *Driver) sizes(h *handle, status map[string]any) {
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
	for _, w := range d.Workspaces.Workspaces() {
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
	if d.Warnings != nil {
		status["warnings"] = d.Warnings(h.rec.Name, h.clone.Key)
	}
}
