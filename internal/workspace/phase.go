package workspace

import (
	"fmt"
	"slices"

	"github.com/helmdeck/repos/internal/meta"
)

// transitions lists the phases that may follow a phase, in memory and on disk alike.
// Only memory has Making. An ended workspace and a discard may be removed.
var transitions = map[meta.Phase][]meta.Phase{
	meta.Making:    {meta.Mounted},             // it has its first lease
	meta.Mounted:   {meta.Parked, meta.Ended},  // kept, but its overlay is gone; its last lease or its volume is gone
	meta.Parked:    {meta.Mounted, meta.Ended}, // Join gave it a lease; its volume was removed
	meta.Ended:     {meta.Discarded},           // no container uses it any more, and it has changes
	meta.Discarded: {meta.Parked},              // Restore
}

// checkTransition returns an error for a transition that is not in the table.
func checkTransition(before, rec meta.Workspace) error {
	if before.Phase != rec.Phase && !slices.Contains(transitions[before.Phase], rec.Phase) {
		return fmt.Errorf("workspace %s is %s: it can't become %s", rec.ID, before.Phase, rec.Phase)
	}
	return nil
}
