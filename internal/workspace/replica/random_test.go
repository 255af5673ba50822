package replica

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/tests/testtree"
)

var (
	worlds = flag.Int("worlds", 0, "how many overlays the random tests make; 0 for some")
	seed   = flag.Uint64("seed", 0, "the seed of the random tests' first overlay; 0 for any")
)

// rounds is how many copies each overlay is compared with.
const rounds = 10

// eachWorld calls f with overlays and a seed for each.
func eachWorld(t *testing.T, dir string, f func(t *testing.T, w *world, seed uint64)) {
	n, s := 3, rand.Uint64()
	if *worlds > 0 {
		n = *worlds
	}
	if *seed != 0 {
		s = *seed
	}
	for i := range n {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			at := filepath.Join(dir, fmt.Sprint(i))
			t.Cleanup(func() { check(t, os.RemoveAll(at)) })
			f(t, newWorld(t, at), s)
		})
		s++
	}
}

// TestCopyEqualsUpper compares copies with overlays that do not change meanwhile.
func TestCopyEqualsUpper(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		done := make(map[string]int)
		eachWorld(t, dir, func(t *testing.T, w *world, seed uint64) {
			ops := testtree.NewWriter(w.merged, "", seed)
			defer ops.Close()
			for round := range rounds {
				for range 60 {
					ops.Do()
				}
				r, result := w.mustStart()
				if d := w.compare(round%4 == 3); len(d) > 0 {
					t.Fatalf("round %d: %s", round, testtree.Show(d))
				}
				if result.Torn+result.Vanished+result.Skipped+result.Foreign+result.Refused > 0 {
					t.Fatalf("round %d: %+v", round, result)
				}
				if round%4 == 3 {
					continue // the mount wrote to the copy
				}
				for range 30 {
					ops.Do()
				}
				w.finish(r)
				if d := w.compare(round%4 == 2); len(d) > 0 {
					t.Fatalf("round %d, second pass: %s", round, testtree.Show(d))
				}
			}
			for name, n := range ops.Done {
				done[name] += n
			}
		})
		if list := testtree.Missing(done); len(list) > 0 && *worlds == 0 && !t.Failed() {
			t.Errorf("no operation of these kinds worked: %v", list)
		}
	})
}

// TestFinishEqualsPause compares copies with overlays that are written to during the first pass.
func TestFinishEqualsPause(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		eachWorld(t, dir, func(t *testing.T, w *world, seed uint64) {
			var pause sync.RWMutex
			var stop atomic.Bool
			var group sync.WaitGroup
			var steps atomic.Int64
			for i := range uint64(2) {
				ops := testtree.NewWriter(w.merged, "", seed*2+i)
				for range 100 {
					ops.Do()
				}
				group.Go(func() {
					defer ops.Close()
					for !stop.Load() {
						pause.RLock()
						ops.Do()
						pause.RUnlock()
						steps.Add(1)
					}
				})
			}
			defer group.Wait()
			defer stop.Store(true)
			for round := range rounds {
				before := steps.Load()
				r, _ := w.mustStart()
				during := steps.Load() - before
				pause.Lock()
				result := w.finish(r)
				d := w.compare(round%4 == 3)
				pause.Unlock()
				if len(d) > 0 {
					t.Fatalf("round %d: %s", round, testtree.Show(d))
				}
				if result.Torn+result.Vanished > 0 {
					t.Fatalf("round %d: %+v", round, result)
				}
				if testing.Verbose() {
					t.Logf("round %d: %d operations during the first pass; %+v", round, during, result)
				}
			}
		})
	})
}
