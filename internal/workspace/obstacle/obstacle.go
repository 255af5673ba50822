// Package obstacle says what is in the way when a clone is to be removed. All of it is pure.
package obstacle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/meta"
)

// Obstacle is something that stands on a clone that is to be removed.
type Obstacle struct {
	Kind   string // lease, workspace, checkpoint or work
	ID     string // of the workspace or checkpoint; of a lease: volume, slash, holder
	Volume string
	Clone  string // key
	Text   string // for people
	// Forced is set if it goes with the clone by force.
	Forced bool
}

// Error lists what is in the way of a removal.
type Error struct{ List []Obstacle }

// shown is how many obstacles an error describes.
const shown = 5

func (e *Error) Error() string {
	var texts []string
	for _, o := range e.List[:min(len(e.List), shown)] {
		texts = append(texts, o.Text)
	}
	text := "in the way: " + strings.Join(texts, "; ")
	if n := len(e.List) - shown; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// Blocked returns an *Error with the obstacles that are in the way, also by force
// if force is set. It returns nil if there are none.
func Blocked(list []Obstacle, force bool) error {
	if !slices.ContainsFunc(list, func(o Obstacle) bool { return !force || !o.Forced }) {
		return nil
	}
	return &Error{list}
}

// Of describes a workspace as obstacles: one for each holder, or itself.
func Of(rec meta.Workspace) (list []Obstacle) {
	o := Obstacle{Kind: "workspace", ID: rec.ID, Volume: rec.Volume, Clone: rec.Clone}
	for _, id := range rec.Leases {
		if holder, n := meta.HolderOf(id); n == 1 {
			list = append(list, Obstacle{
				Kind: "lease", ID: rec.Volume + "/" + holder, Volume: rec.Volume, Clone: rec.Clone,
				Text: fmt.Sprintf("volume %q is mounted by %s", rec.Volume, holder),
			})
		}
	}
	switch {
	case len(list) > 0:
		return list
	case len(rec.Leases) > 0: // a docker cp that outlives its container
		o.Text = fmt.Sprintf("volume %q is mounted", rec.Volume)
	case rec.Phase == meta.Making && rec.Made == meta.MadeByUser:
		o.Kind, o.Text = "work", "a checkpoint is being made"
	case rec.Phase == meta.Making:
		o.Kind, o.Forced, o.Text = "work", true, fmt.Sprintf("volume %q is being mounted", rec.Volume)
	case rec.Phase == meta.Checkpoint:
		o.Kind, o.Forced, o.Text = "checkpoint", true, fmt.Sprintf("checkpoint %s of volume %q is kept", rec.ID, rec.Volume)
	case rec.Phase == meta.Ended:
		o.Text = fmt.Sprintf("a workspace of volume %q has just ended, or a container still uses it", rec.Volume)
	default:
		o.Forced, o.Text = true, fmt.Sprintf("volume %q keeps its workspace (mode=keep)", rec.Volume)
	}
	return []Obstacle{o}
}

// All describes workspaces as obstacles: leases first, then by volume.
func All(recs []meta.Workspace) (list []Obstacle) {
	for _, rec := range recs {
		list = append(list, Of(rec)...)
	}
	rank := func(o Obstacle) int {
		if o.Kind == "lease" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Obstacle) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.ID, b.ID))
	})
	return list
}
