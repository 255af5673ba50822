package phase

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Phase is a part of a Mount.
type Phase int

const (
	Resolve Phase = iota // finding the commit of the ref: mostly a question to the remote
	Fetch                // fetching objects and refs
	Build                // building the layers, with all that only a build fetches
	Mount                // making and mounting the workspace
	Count                // the number of phases
)

// String returns the phase's name.
func (p Phase) String() string { return [Count]string{"resolve", "fetch", "build", "mount"}[p] }

// Watch measures the phases of a request. It is safe for concurrent use, but measures only
// one phase at a time.
type Watch struct {
	mu      sync.Mutex
	now     Phase // Count: none
	since   time.Time
	took    [Count]time.Duration
	entered [Count]bool
	waits   map[string]time.Duration
}

type watchKey struct{}

// With returns a context whose phases the Watch measures.
func With(ctx context.Context) (context.Context, *Watch) {
	w := &Watch{now: Count}
	return context.WithValue(ctx, watchKey{}, w), w
}

// Ensure returns the Watch of a context or, if it has none, that of a new one: see With.
func Ensure(ctx context.Context) (context.Context, *Watch) {
	if w, ok := ctx.Value(watchKey{}).(*Watch); ok {
		return ctx, w
	}
	return With(ctx)
}

// maxWaits bounds what a Watch names. Further waits count as elsewhere.
const (
	maxWaits  = 16
	elsewhere = "other work"
)

// Waited notes that the request of ctx has waited for something, such as "a turn". Waits are parts of
// phases. Those of concurrent parts of a request are all counted, so their sum may be more than the
// request took. Without a Watch it does nothing.
func Waited(ctx context.Context, what string, d time.Duration) {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits == nil {
		w.waits = make(map[string]time.Duration)
	}
	if _, known := w.waits[what]; !known && len(w.waits) >= maxWaits {
		what = elsewhere
	}
	w.waits[what] += d
}

// Waits returns for what the request has waited, and how long.
func (w *Watch) Waits() map[string]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.waits)
}

// Begin begins a phase of the request of ctx. It interrupts the current phase, which
// continues at end. Without a Watch it does nothing.
func Begin(ctx context.Context, p Phase) (end func()) {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	if w == nil {
		return func() {}
	}
	before := w.enter(p)
	return sync.OnceFunc(func() { w.enter(before) })
}

// enter charges the current phase and begins another one.
func (w *Watch) enter(p Phase) (before Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	before = w.now
	if before < Count {
		w.took[before] += now.Sub(w.since)
	}
	if p < Count {
		w.entered[p] = true
	}
	w.now, w.since = p, now
	return before
}

// Took returns how long each phase took that has begun; a phase that has not is missing.
func (w *Watch) Took() map[Phase]time.Duration {
	w.enter(Count)
	w.mu.Lock()
	defer w.mu.Unlock()
	took := make(map[Phase]time.Duration, Count)
	for p := range Count {
		if w.entered[p] {
			took[p] = w.took[p]
		}
	}
	return took
}
