// Package backlog does background work for one item after the other. Subjects take turns, and of one subject the most
// urgent item comes first.
package backlog

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Backlog has the items that wait. It is safe for concurrent use. Its functions may not call it.
type Backlog[T comparable] struct {
	// Go runs a function in the background, or not at all if nothing is done any more.
	Go func(func(context.Context))
	// Subject says who has an item, always the same.
	Subject func(T) string
	// Urgency is asked each time that an item is chosen. The highest of a subject comes first.
	Urgency func(T) int
	// Cause is what items have in common for which Do probably fails together.
	Cause func(T) string
	// Do does the work for an item. It should end with the context.
	Do func(context.Context, T) error
	// Pause is how long no item with the same Cause is taken after an error of Do.
	Pause time.Duration

	mu      sync.Mutex
	turns   []string // the subjects of the items that wait, the next one first
	waiting map[string]map[T]bool
	failed  map[string]time.Time // when the pause is over
	running bool
}

// Add has the work for an item done once from now on, unless that waits already. It reports false for an item whose
// Cause has failed lately, for which it does nothing; one that waits is dropped if that happens.
func (b *Backlog[T]) Add(item T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting, b.failed = make(map[string]map[T]bool), make(map[string]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(b.failed, func(_ string, until time.Time) bool { return !now.Before(until) })
	if b.paused(item) {
		return false
	}
	subject := b.Subject(item)
	if b.waiting[subject] == nil {
		b.waiting[subject] = make(map[T]bool)
		b.turns = append(b.turns, subject)
	}
	b.waiting[subject][item] = true
	if b.running {
		return true
	}
	b.running = true
	b.Go(func(ctx context.Context) {
		for item, cause, ok := b.next(); ok; item, cause, ok = b.next() {
			if b.Do(ctx, item) != nil {
				b.mu.Lock()
				b.failed[cause] = time.Now().Add(b.Pause)
				b.mu.Unlock()
			}
		}
	})
	return true
}

// paused reports whether the Cause of an item has failed lately.
func (b *Backlog[T]) paused(item T) bool { return time.Now().Before(b.failed[b.Cause(item)]) }

// next returns the most urgent item of the subject whose turn it is, which does not wait any more. It is not ok if none
// waits: then nothing runs.
func (b *Backlog[T]) next() (next T, cause string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !ok && len(b.turns) > 0 {
		subject := b.turns[0]
		b.turns = b.turns[1:]
		items, most := b.waiting[subject], 0
		for item := range items {
			if b.paused(item) {
				delete(items, item)
			} else if n := b.Urgency(item); !ok || n > most {
				next, most, ok = item, n, true
			}
		}
		delete(items, next)
		if len(items) > 0 {
			b.turns = append(b.turns, subject)
		} else {
			delete(b.waiting, subject)
		}
	}
	if ok {
		cause = b.Cause(next)
	}
	b.running = ok
	return next, cause, ok
}
