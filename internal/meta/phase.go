package meta

import (
	"fmt"
	"slices"
)

// transitions lists the phases that may follow a phase, in memory and on disk alike.
// Only memory has Making. An ended workspace and a checkpoint may be removed; a checkpoint never changes.
var transitions = map[Phase][]Phase{
	Making:  {Mounted},        // it has its first lease; a copy of another one is recorded as a checkpoint
	Mounted: {Parked, Ended},  // kept, but its overlay is gone; its last lease or its volume is gone
	Parked:  {Mounted, Ended}, // Join gave it a lease; its volume was removed
	Ended:   {Checkpoint},     // no container uses it any more, and it has changes
}

// CheckTransition returns an error for a transition that is not in the table.
func CheckTransition(before, rec Workspace) error {
	if before.Phase != rec.Phase && !slices.Contains(transitions[before.Phase], rec.Phase) {
		return fmt.Errorf("workspace %s is %s: it can't become %s", rec.ID, before.Phase, rec.Phase)
	}
	return nil
}
