package janitor

import (
	"time"
)

// failure is an eviction that did not succeed.
type failure struct {
	times int
	until time.Time // not tried again before
}

const (
	// failedFirst and failedMost bound the wait before what failed is tried again:
	// whatever is wrong with one directory, it must not take a sweep's time.
	failedFirst = 5 * time.Minute
	failedMost  = 24 * time.Hour
)

// keyOf identifies what an eviction is about.
func keyOf(e Eviction) string { return key(e.Clone, e.Kind, e.ID) }

func key(clone string, k Kind, id string) string { return clone + "\x00" + k.String() + "\x00" + id }

// fail says what could not be evicted, and leaves it alone for a while.
func (j *Janitor) fail(e Eviction, err error) {
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

// holdFailed marks in an inventory what failed a short while ago. Those that are
// no longer there are forgotten.
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
