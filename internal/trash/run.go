package trash

import (
	"context"

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

func (t *Trash) work(ctx context.Context) {
	for ctx.Err() == nil {
		t.measure(ctx)
		e := t.first()
		if e == nil {
			select {
			case <-ctx.Done():
			case <-t.wake:
			}
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
