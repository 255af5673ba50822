package workspace

import (
	"fmt"
	"slices"

	"github.com/helmdeck/repos/internal/meta"
)

// transitions lists the phases that may follow a phase, in memory and on disk alike.
// Memory alone has Making; a workspace that has ended, and a discard, may be removed.
//
//	making     mounted    Open has mounted it, and it has its first lease
//	mounted    parked     its volume keeps it, and its overlay is gone
//	           ended      its last lease was released or lost, or its volume removed
//	parked     mounted    Join has mounted it again, and it has a lease
//	           ended      its volume was removed
//	ended      discarded  no container uses it any more, and it has changes
//	discarded  parked     Restore
var transitions = map[meta.Phase][]meta.Phase{
	meta.Making:    {meta.Mounted},
	meta.Mounted:   {meta.Parked, meta.Ended},
	meta.Parked:    {meta.Mounted, meta.Ended},
	meta.Ended:     {meta.Discarded},
	meta.Discarded: {meta.Parked},
}

// checkTransition refuses what the table does not list.
func checkTransition(before, rec meta.Workspace) error {
	if before.Phase != rec.Phase && !slices.Contains(transitions[before.Phase], rec.Phase) {
		return fmt.Errorf("workspace %s is %s: it can't become %s", rec.ID, before.Phase, rec.Phase)
	}
	return nil
}
