package tree

import (
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// toCome is how much later than now a tree must have been made to have files with times to come: a checkout sets them two
// seconds back.
const toCome = 2 * time.Second

// isAhead reports whether a tree, or one that it stands on, was made later than the clock says now, by more than that:
// while the clock was ahead.
func (c *Collection) isAhead(t meta.Layer, by time.Duration) bool {
	limit := c.now().Add(by).Round(0) // without the monotonic clock, which nobody sets
	return slices.ContainsFunc(t.Stack(), func(id string) bool {
		l, _ := c.layers.Get(meta.Tree, id)
		return l.CreatedAt.After(limit)
	})
}

// timely returns the ID for the tree of an ID, which may not exist: the same one or, if the files of that tree have times to
// come, that of one in its place. Such a tree may be in use, so it stays as it is.
func (c *Collection) timely(id string) string {
	for {
		l, known := c.layers.Get(meta.Tree, id)
		if known && !c.isAhead(l, toCome) {
			return id
		}
		other := layerID("tree", "timely", id)
		if _, made := c.layers.Get(meta.Tree, other); !known && !made {
			return id
		}
		id = other
	}
}

// hasOther reports whether mounts use another tree than l, which lacks no submodule, for its shape and commit: a flat one,
// or that of timely.
func (c *Collection) hasOther(l meta.Layer) bool {
	used, ok := c.flat(l.Shape, l.Commit)
	if !ok {
		used, ok = c.layers.Get(meta.Tree, c.timely(treeID(l.Shape, l.Commit)))
	}
	return ok && used.ID != l.ID
}
