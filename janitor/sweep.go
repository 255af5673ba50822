package janitor

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
)

// Report is the result of a sweep.
type Report struct {
	Began   time.Time
	Took    time.Duration
	Evicted []Eviction
	Frees   disk.Size
	// Held counts the planned evictions that a new use prevented, Failed those that
	// failed.
	Held   int
	Failed int
	// Left is the plan after the sweep: the limits that stay exceeded, and the holders.
	Left Plan
}

// Plan returns what a sweep would do now, without doing it.
func (j *Janitor) Plan(ctx context.Context) (Plan, error) {
	unlock, err := j.lock(ctx)
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
	_, plan, err := j.decide(ctx, j.config.Limits)
	return plan, err
}

// Sweep evicts as planned, of late parts only a share. If there is nothing to evict it reads no
// directory. It continues after a failed eviction; the error is that of the inventory or ctx.
func (j *Janitor) Sweep(ctx context.Context) (Report, error) { return j.sweepFor(ctx, j.config.Limits) }

func (j *Janitor) sweepFor(ctx context.Context, lim Limits) (Report, error) {
	unlock, err := j.lock(ctx)
	if err != nil {
		return Report{}, err
	}
	defer unlock()
	r, inv, err := j.sweep(ctx, lim)
	if err != nil {
		if ctx.Err() == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.fails++
		}
		return r, err
	}
	j.observe(ctx, inv, r)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watch.uppers = upperSizes(inv)
	j.last = r
	j.sweeps++
	return r, nil
}

// sweep plans and evicts until nothing more can be evicted, and returns the last
// inventory. The share of late parts is evicted once.
func (j *Janitor) sweep(ctx context.Context, lim Limits) (r Report, inv Inventory, err error) {
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	for round := 1; ; round++ {
		var plan Plan
		if inv, plan, err = j.decide(ctx, lim); err != nil {
			return r, inv, err
		}
		if round == 1 {
			r.Began = inv.Now
			j.noteLate(ctx, inv, plan)
		}
		done, err := j.execute(ctx, plan.Evictions, &r)
		if err != nil {
			return r, inv, err
		}
		if plan.More && done > 0 {
			round = 1 // the plan was full, and made progress
		} else if done == 0 || round == rounds {
			r.Left = plan
			r.Left.Evictions, r.Left.Frees = []Eviction{}, disk.Size{}
			j.all.Store(plan.All.Bytes)
			return r, inv, nil
		}
		lim.lateDone = true
	}
}

// decide makes a plan. It treats recently failed evictions as held.
func (j *Janitor) decide(ctx context.Context, lim Limits) (Inventory, Plan, error) {
	inv, err := j.config.Stock.Inventory(ctx, Choice{})
	if err != nil {
		return inv, Plan{}, err
	}
	j.holdFailed(inv)
	return inv, Decide(inv, lim), nil
}

// execute evicts, and returns the number of evictions done. The error is that of ctx.
func (j *Janitor) execute(ctx context.Context, list []Eviction, r *Report) (done int, err error) {
	for _, e := range list {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		err := j.config.Stock.Evict(ctx, e)
		switch {
		case err == nil:
			done++
			r.Evicted = append(r.Evicted, e)
			r.Frees = r.Frees.Add(e.Size)
			j.evicted(ctx, e)
		case errors.Is(err, ErrHeld):
			r.Held++
			j.config.Log.WithContext(ctx).WithError(err).WithFields(fields(e)).Debug("janitor: in use by now")
		case ctx.Err() != nil:
			return done, context.Cause(ctx)
		default:
			r.Failed++
			j.recordFailure(ctx, e, err)
		}
	}
	return done, nil
}

// Removed reports an eviction that an operator requested and that was not planned.
func (j *Janitor) Removed(ctx context.Context, e Eviction) { j.evicted(ctx, e) }

// evicted reports an eviction.
func (j *Janitor) evicted(ctx context.Context, e Eviction) {
	if e.Reason == OnDemand || e.Reason == Pruned {
		j.Nudge() // whoever made room looks next at whether it is enough
	}
	j.mu.Lock()
	delete(j.failed, e.object())
	j.mu.Unlock()
	j.config.Log.WithContext(ctx).WithFields(fields(e)).Infof("janitor: evicted: %s", e.Text)
	j.record(eventOf(Evicted, e))
	if j.config.Evicted != nil {
		j.config.Evicted(ctx, e)
	}
}

// noteLate reports that a plan leaves late parts for later sweeps.
func (j *Janitor) noteLate(ctx context.Context, inv Inventory, plan Plan) {
	if plan.Late == 0 {
		return
	}
	j.config.Log.WithContext(ctx).WithField("left", plan.Late).Warn("janitor: much is long overdue, as after a jump of the clock: each sweep evicts only some of it")
	j.record(Event{Time: inv.Now, Type: Deferred, Text: "much is long overdue: each sweep evicts only some of it"})
}

func fields(e Eviction) logrus.Fields {
	f := logrus.Fields{"kind": e.Kind.String(), "reason": string(e.Reason), "clone": e.Clone, "subject": e.Subject, "bytes": e.Size.Bytes}
	if e.ID != "" {
		f["id"] = e.ID
	}
	if e.Volume != "" {
		f["volume"] = e.Volume
	}
	return f
}
