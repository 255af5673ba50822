package trash

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
)

// rest is how long the worker rests, in percent of the time that it worked. A commit of
// the journal has to write the deletions, and mounts wait for that commit.
const rest = 300

// niceness is what makes room for others on a busy processor: a third of one, more than
// the worker takes of an idle one. With disk.Lowest it would get a thirtieth, and containers
// that compute all the time would keep the trash from getting smaller.
const niceness = 3

// Run deletes entries until ctx ends. The next Run, or the next Open, continues with an
// unfinished one. Only one Run at a time.
func (t *Trash) Run(ctx context.Context) {
	disk.Nice(niceness, func() { t.work(ctx) })
}

// refill is how often the worker tries to fill the reserve while no entry is due.
const refill = time.Minute

func (t *Trash) work(ctx context.Context) {
	for ctx.Err() == nil {
		t.measure(ctx)
		work := &remover{}
		e, turn, end, wait := t.next(ctx, work)
		if e == nil {
			// An error means that the disk is still full: try again later.
			_ = t.reserve.Fill()
			timer := time.NewTimer(min(refill, wait))
			select {
			case <-ctx.Done():
			case <-t.wake:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		t.delete(ctx, turn, e)
		end()
	}
}

// delete gives an entry its turn, and reports the result.
func (t *Trash) delete(ctx, turn context.Context, e *entry) {
	failpoint.Hit("trash/remove/begun")
	r := t.remove(turn, e)
	over := turn.Err() != nil
	failpoint.Hit("trash/remove/done")
	if r.Err != nil && ctx.Err() != nil {
		return
	}
	r.Entry = e.path
	if r.Err != nil && over && !errors.Is(r.Err, ErrLater) {
		if t.requeue(e) {
			return
		}
		r.Err = later(r.Err)
	}
	if errors.Is(r.Err, ErrLater) {
		if e.fresh() { // report it once
			t.report(r)
		}
		t.postpone(e, t.sizeOf(ctx, e.path, laterBudget))
		return
	}
	var stuck disk.Size
	if r.Err != nil {
		stuck = t.sizeOf(ctx, e.path, disk.Budget)
	}
	t.report(r)
	t.done(e, stuck)
}

// remove deletes an entry: on this thread, which has a low priority, until Hurry is called, and then on one
// of ordinary priority, because those who wait for room compete with those who take it.
func (t *Trash) remove(turn context.Context, e *entry) Report {
	slow, cancel := context.WithCancel(turn)
	defer cancel()
	defer t.setQuicken(nil)
	if t.setQuicken(cancel) {
		r := e.work.remove(slow, e.path, t.pace)
		if r.Err == nil || turn.Err() != nil || slow.Err() == nil {
			return r
		}
	}
	done := make(chan Report)
	go func() { done <- e.work.remove(turn, e.path, t.pace) }()
	return <-done
}

// againFirst and againMax bound the pause between two calls.
const (
	againFirst = 100 * time.Millisecond
	againMax   = 5 * time.Minute
)

// Again calls f with growing pauses until it succeeds or ctx ends. Use it for a path that
// could not be put into the trash after its record was deleted: it would otherwise take
// space, uncounted, until the next start. f must check whether the path is in use again.
func Again(ctx context.Context, f func() error) {
	for wait := againFirst; ; wait = min(2*wait, againMax) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if f() == nil {
			return
		}
	}
}
