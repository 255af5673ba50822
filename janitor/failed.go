package janitor

import (
	"context"
	"time"
)

// failure counts the failures of an eviction.
type failure struct {
	times int
	until time.Time // not tried again before
}

const (
	// failedFirst and failedMost bound the backoff after a failed eviction, so that one
	// broken directory does not take the time of every sweep.
	failedFirst = 5 * time.Minute
	failedMost  = 24 * time.Hour
)

// object is what an eviction removes.
type object struct {
	clone string
	kind  Kind
	id    string
}

func (e Eviction) object() object { return object{e.Clone, e.Kind, e.ID} }

// recordFailure reports a failed eviction, and delays the next try.
func (j *Janitor) recordFailure(ctx context.Context, e Eviction, err error) {
	j.mu.Lock()
	f := j.failed[e.object()]
	f.until = time.Now().Add(min(failedFirst<<min(f.times, 16), failedMost))
	f.times++
	j.failed[e.object()] = f
	j.mu.Unlock()
	j.config.Log.WithContext(ctx).WithError(err).WithFields(fields(e)).Warnf("janitor: not evicted; it is tried again after %v", time.Until(f.until).Round(time.Second))
	event := eventOf(NotEvicted, e)
	event.Text = err.Error()
	j.record(event)
}

// holdFailed marks the parts of an inventory whose eviction failed recently, and forgets
// the failures of others.
func (j *Janitor) holdFailed(inv Inventory) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.failed) == 0 {
		return
	}
	now, there := time.Now(), make(map[object]failure)
	hold := func(o object, u *Use) {
		f, ok := j.failed[o]
		if !ok {
			return
		}
		there[o] = f
		u.failed = now.Before(f.until)
	}
	for i := range inv.Clones {
		c := &inv.Clones[i]
		hold(object{c.Key, WholeClone, ""}, &c.Use)
		for n := range c.Parts {
			part := &c.Parts[n]
			hold(object{c.Key, part.Kind, part.ID}, &part.Use)
		}
	}
	j.failed = there
}
