package meta

import "testing"

// Each transition that is not in the table is refused.
func TestTransitions(t *testing.T) {
	phases := []Phase{Making, Mounted, Parked, Ended, Checkpoint}
	allowed := map[[2]Phase]bool{
		{Making, Mounted}: true, {Mounted, Parked}: true, {Mounted, Ended}: true,
		{Parked, Mounted}: true, {Parked, Ended}: true, {Ended, Checkpoint}: true,
	}
	for _, from := range phases {
		for _, to := range phases {
			err := CheckTransition(Workspace{ID: "w", Phase: from}, Workspace{ID: "w", Phase: to})
			if want := from == to || allowed[[2]Phase{from, to}]; (err == nil) != want {
				t.Errorf("from %s to %s: %v, want it allowed: %v", from, to, err, want)
			}
		}
	}
}
