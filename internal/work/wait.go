package work

import (
	"context"
	"maps"
	"time"

	"github.com/helmdeck/repos/internal/work/phase"
)

// What work waits for, as Waited names it.
const (
	aTurn      = "a turn" // of a kind
	aLock      = "other work on the clone"
	anEviction = "an eviction"
)

// Waited notes that the work of ctx has waited for something since a time: for the request of ctx
// (see phase.Waited) and, if it is the work of a job, for the request that began the job.
func Waited(ctx context.Context, what string, since time.Time) {
	noteWait(ctx, what, time.Since(since))
}

func noteWait(ctx context.Context, what string, d time.Duration) {
	phase.Waited(ctx, what, d)
	j := JobOf(ctx)
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waits == nil {
		j.waits = make(map[string]time.Duration)
	}
	j.waits[what] += d
}

// sharedWait notes for a caller that it has waited for a flight since a time: if it began the flight, for
// what the flight has waited for, and otherwise for the flight itself.
func (fl *flight) sharedWait(ctx context.Context, began bool, since time.Time) {
	if !began {
		Waited(ctx, "work for "+fl.job.Owner, since)
		return
	}
	fl.job.mu.Lock()
	waits := maps.Clone(fl.job.waits)
	fl.job.mu.Unlock()
	for what, d := range waits {
		noteWait(ctx, what, min(d, time.Since(since)))
	}
}
