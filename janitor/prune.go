package janitor

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Selection says what Prune removes.
type Selection struct {
	// Keeps reports whether the clone of a key stays, because something names it that an inventory does
	// not have. Of such a clone only the layers go that nothing needs. Nil keeps none.
	Keeps func(key string) bool
	// Selects reports whether a clone and its parts are selected. Nil selects all.
	Selects func(Clone) bool
	// Checkpoints removes checkpoints too.
	Checkpoints bool
	// Unused is for how long nobody must have used what is removed.
	Unused time.Duration
}

// Prune removes what nothing uses: clones that are idle, and layers that nothing needs. A clone that was just
// made for a mount stays, and so does whatever came into use meanwhile. With dry, it only says what it would
// remove. It continues after a failed eviction; the error is that of the inventory or ctx. Held of the report also counts
// clones that nothing but work uses, which ends: a fetch, a build, or a mount that begins.
func (j *Janitor) Prune(ctx context.Context, sel Selection, dry bool) (Report, error) {
	unlock, err := j.lock(ctx)
	if err != nil {
		return Report{}, err
	}
	defer unlock()
	began := time.Now()
	r := Report{Began: began}
	for round := 1; ; round++ {
		inv, err := j.config.Stock.Inventory(ctx, Choice{})
		if err != nil {
			return r, err
		}
		j.holdFailed(inv)
		plan, working := decidePrune(inv, j.config.Limits, sel)
		if dry {
			r.Evicted, r.Frees, r.Held = plan.Evictions, plan.Frees, working
			break
		}
		r.Held = working // of the last plan alone
		done, err := j.execute(ctx, plan.Evictions, &r)
		if err != nil {
			return r, err
		}
		if done == 0 || round >= rounds && !plan.More {
			break
		}
	}
	r.Took = time.Since(began)
	return r, nil
}

// decidePrune plans what Prune removes, and counts the clones that it would remove if no work was going on for them. The
// layers below a checkpoint can go once it has gone: in the next plan.
func decidePrune(inv Inventory, lim Limits, sel Selection) (plan Plan, working int) {
	p := newPlanner(inv, lim)
	why := p.because(Pruned, "nothing uses it, and an operator pruned")
	selected := func(c *clone) bool { return sel.Selects == nil || sel.Selects(*c.Clone) }
	if sel.Checkpoints {
		for c := range p.partsOf(checkpoint, 0, len(p.clones), sel.Unused, selected) {
			if p.full() {
				break
			}
			p.evictPart(c.number(), why)
		}
	}
	unused := func(c *clone) bool {
		return selected(c) && c.checkpoints == 0 && c.exempt != JustMade && duration(p.age(c.used())) >= sel.Unused && (sel.Keeps == nil || !sel.Keeps(c.Key))
	}
	for i := range p.clones {
		if c := &p.clones[i]; (c.hold == Working || c.hold == Pending) && unused(c) {
			working++
		}
	}
	for c := range p.idleClones(0, len(p.clones), unused) {
		if p.full() {
			break
		}
		p.evictClone(c.number(), why)
	}
	for c := range p.partsOf(unneeded, 0, len(p.clones), sel.Unused, selected) {
		if p.full() {
			break
		}
		p.evictPart(c.number(), why)
	}
	p.plan.Evictions, p.plan.Frees = p.evictions(), p.freed
	if p.plan.Evictions == nil {
		p.plan.Evictions, p.plan.Frees = []Eviction{}, disk.Size{}
	}
	return p.plan, working
}
