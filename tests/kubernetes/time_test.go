package kubernetes

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// The targets, as ratios to an emptyDir.
const (
	maxStart = 1.15 // of one pod
	maxCrowd = 1.2  // of 50 pods at once
)

// kinds are the volumes that are compared.
var kinds = []struct {
	name   string
	volume func() object
}{
	{"emptyDir", emptyDir},
	{"checkout", func() object { return inline(attributes(largeRepo)) }},
}

// startTime measures the time from the request to Running, in turns, with a warm checkout of 10,000 files and with an
// emptyDir. It reports the medians, and fails only if a pod does not start.
func startTime(t *testing.T, w *world) {
	const turns = 9
	took := make(map[string][]time.Duration)
	for turn := -1; turn < turns; turn++ { // the first turn warms both
		for _, kind := range kinds {
			name := fmt.Sprint("timed-", kind.name == "checkout", "-", turn+1)
			_, d, err := w.startPod("default", newPod(name, kind.volume()))
			must(t, err)
			w.mustDelete(t, name)
			if turn >= 0 {
				took[kind.name] = append(took[kind.name], d)
			}
		}
	}
	report("start of a pod, median of 9", maxStart, median(took["checkout"]), median(took["emptyDir"]))
	w.awaitNothing(t)
}

// crowd measures the time from the first request until the last of 50 pods runs, in turns.
func crowd(t *testing.T, w *world) {
	const turns = 3
	took := make(map[string][]time.Duration)
	for range turns {
		for _, kind := range kinds {
			took[kind.name] = append(took[kind.name], w.crowd(t, 50, kind.volume))
		}
	}
	report("50 pods at once, median of 3", maxCrowd, median(took["checkout"]), median(took["emptyDir"]))
	w.awaitNothing(t)
}

// crowd starts n pods at once, and deletes them. It returns how long all starts took together.
func (w *world) crowd(t *testing.T, n int, volume func() object) time.Duration {
	t.Helper()
	name := func(i int) string { return fmt.Sprint("crowd-", i) }
	began := time.Now()
	w.each(t, n, func(i int) error {
		_, _, err := w.startPod("default", newPod(name(i), volume()))
		return err
	})
	took := time.Since(began)
	w.each(t, n, func(i int) error { return w.deletePod("default", name(i)) })
	return took
}

// each calls f for all numbers below n at once.
func (w *world) each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := f(i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// report prints a time with its ratio to that of an emptyDir.
func report(what string, most float64, checkout, empty time.Duration) {
	ratio := float64(checkout) / float64(empty)
	verdict := "met"
	if ratio > most {
		verdict = "NOT MET"
	}
	fmt.Printf("    %s: %d ms, with an emptyDir %d ms: %.2fx, target at most %.2fx: %s\n",
		what, checkout.Milliseconds(), empty.Milliseconds(), ratio, most, verdict)
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
