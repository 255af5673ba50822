package janitor

import (
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

// keyOf identifies the object of an eviction.
func keyOf(e Eviction) string { return key(e.Clone, e.Kind, e.ID) }

func key(clone string, k Kind, id string) string { return clone + "\x00" + k.String() + "\x00" + id }

// recordFailure reports a failed eviction, and delays the next try.
func (j *Janitor) recordFailure(e Eviction, err error) {
	j.mu.Lock()
	f := j.failed[keyOf(e)]
	f.until = time.Now().Add(min(failedFirst<<min(f.times, 16), failedMost))
	f.times++
	j.failed[keyOf(e)] = f
	j.mu.Unlock()
	j.Log.WithError(err).WithFields(fields(e)).Warnf("janitor: not evicted; it is tried again after %v", time.Until(f.until).Round(time.Second))
	event := eventOf(NotEvicted, e)
	event.Text = err.Error()
	j.events.add(event)
}

// holdFailed marks the parts of an inventory whose eviction failed recently, and forgets
// the failures of others.
func (j *Janitor) holdFailed(inv Inventory) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.failed) == 0 {
		return
	}
	now, there := time.Now(), make(map[string]failure)
	hold := func(key string, h *Hold) {
		f, ok := j.failed[key]
		if !ok {
			return
		}
		there[key] = f
		if now.Before(f.until) && *h == Free {
			*h = Failed
		}
	}
	for i := range inv.Clones {
		c := &inv.Clones[i]
		hold(key(c.Key, WholeClone, ""), &c.Held)
		for n := range c.Parts {
			hold(key(c.Key, c.Parts[n].Kind, c.Parts[n].ID), &c.Parts[n].Held)
		}
	}
	j.failed = there
}
