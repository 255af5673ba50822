// Package obstacle says what is in the way when a clone is to be removed. All of it is pure.
package obstacle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/meta"
)

// Obstacle is something that stands on a clone that is to be removed.
type Obstacle struct {
	Kind   string // lease, workspace, discard or work
	ID     string // of the workspace or discard; of a lease: volume, slash, holder
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
	forced := true
	for i, o := range e.List {
		if forced = forced && o.Forced; i < shown {
			texts = append(texts, o.Text)
		}
	}
	text := "in the way: " + strings.Join(texts, "; ")
	if n := len(e.List) - shown; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	if forced {
		text += "; force discards it"
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
	case rec.Phase == meta.Making:
		o.Kind, o.Forced, o.Text = "work", true, fmt.Sprintf("volume %q is being mounted", rec.Volume)
	case rec.Phase == meta.Discarded:
		o.Kind, o.Forced, o.Text = "discard", true, fmt.Sprintf("discard %s of volume %q can be restored", rec.ID, rec.Volume)
	case rec.Phase == meta.Ended:
		o.Text = fmt.Sprintf("a workspace of volume %q has just ended, or a container still uses it", rec.Volume)
	case rec.Restored:
		o.Forced, o.Text = true, fmt.Sprintf("volume %q keeps the workspace that was restored into it, and must be removed without it", rec.Volume)
	default:
		o.Forced, o.Text = true, fmt.Sprintf("volume %q keeps its workspace (mode=keep)", rec.Volume)
	}
	return []Obstacle{o}
}
