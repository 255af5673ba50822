package trash

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
)

// rest is how long the worker rests for each time that it worked, in percent: a
// commit of the journal has to write what it deleted, and whoever mounts
// meanwhile waits for that commit.
const rest = 300

// Run deletes entries until ctx ends; what it is at then is gone on with by the
// next Run or after the next Open. Only one Run at a time.
func (t *Trash) Run(ctx context.Context) {
	disk.Nice(func() { t.work(ctx) })
}

// refill is how often the worker looks whether there is room for the reserve when
// nothing is to be deleted, or what is has to wait.
const refill = time.Minute

func (t *Trash) work(ctx context.Context) {
	for ctx.Err() == nil {
		t.measure(ctx)
		work := &remover{}
		e, turn, end, wait := t.next(ctx, work)
		if e == nil {
			// No room is no news: it is tried again.
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

// delete gives an entry its turn, and says what becomes of it.
func (t *Trash) delete(ctx, turn context.Context, e *entry) {
	failpoint.Hit("trash/remove/begun")
	r := e.work.remove(turn, e.path, t.pace)
	over := turn.Err() != nil
	failpoint.Hit("trash/remove/done")
	if r.Err != nil && ctx.Err() != nil {
		return
	}
	r.Entry = e.path
	if r.Err != nil && over && !errors.Is(r.Err, ErrLater) {
		if t.goOn(e) {
			return
		}
		r.Err = later(r.Err)
	}
	if errors.Is(r.Err, ErrLater) {
		if e.fresh() { // it is said once
			t.report(r)
		}
		t.putBack(e)
		return
	}
	var stuck disk.Size
	if r.Err != nil {
		stuck = t.sizeOf(ctx, e.path)
	}
	t.report(r)
	t.done(e, stuck)
}
