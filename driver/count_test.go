package driver

import (
	"math/rand/v2"
	"testing"
)

// TestCounts compares the leases with an engine's counts, after Mounts and Unmounts in any order and restarts. While a
// mount ID has leases, all Mounts with it get the same workspace.
func TestCounts(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create("v", "mode", mode, "refresh", "never")
			r := rand.New(rand.NewPCG(1, 2))
			counts, paths, sum := make(map[string]int), make(map[string]string), 0
			for step := range 120 {
				id := string(rune('a' + r.IntN(3)))
				switch op := r.IntN(20); {
				case op == 0:
					w.restart()
				case op < 12:
					path := w.mountOK("v", id)
					if counts[id] > 0 && path != paths[id] {
						t.Fatalf("step %d: %s got %s, want %s", step, id, path, paths[id])
					}
					paths[id] = path
					counts[id]++
					sum++
				default: // also for IDs without a Mount
					w.unmountOK("v", id)
					if counts[id] > 0 {
						counts[id]--
						sum--
					}
				}
				if got := w.core.Leases("v"); len(got) != sum {
					t.Fatalf("step %d: leases %q, want %v", step, got, counts)
				}
			}
			for id, n := range counts {
				for range n {
					w.unmountOK("v", id)
				}
			}
			w.removeOK("v")
		})
	}
}
