package trash

import (
	"context"
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
// nothing is to be deleted.
const refill = time.Minute

func (t *Trash) work(ctx context.Context) {
	for ctx.Err() == nil {
		t.measure(ctx)
		e := t.first()
		if e == nil {
			// No room is no news: it is tried again.
			_ = t.reserve.Fill()
			timer := time.NewTimer(refill)
			select {
			case <-ctx.Done():
			case <-t.wake:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		work := &remover{}
		t.mu.Lock()
		e.work = work
		t.mu.Unlock()
		failpoint.Hit("trash/remove/begun")
		r := work.remove(ctx, e.path, t.pace)
		failpoint.Hit("trash/remove/done")
		if r.Err != nil && ctx.Err() != nil {
			return
		}
		var stuck disk.Size
		if r.Err != nil {
			stuck, _ = disk.Measure(ctx, e.path)
		}
		r.Entry = e.path
		t.report(r)
		t.done(stuck)
	}
}
