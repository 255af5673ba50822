package trash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/helmdeck/repos/internal/durable"
	"golang.org/x/sys/unix"
)

const (
	// firstWait is short, for a container that is being stopped is gone in a
	// moment.
	firstWait = time.Second
	// maxWait is how long the space of an entry may stay taken after its last
	// user has gone; a question costs about a millisecond.
	maxWait = time.Minute
	// niceness of the worker. From 15 on the kernel derives the lowest of the
	// ordinary I/O priorities from it. Not the idle ones: who waits for the
	// disk within a transaction of the journal stops all others.
	niceness = 15
)

// Run checks and deletes entries until ctx ends; what it is at then is gone
// on with by the next Run or after the next Open. Only one Run at a time.
func (t *Trash) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread, and its priority, end with the goroutine.
		runtime.LockOSThread()
		// An error means ordinary priority, which is no reason not to delete.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
		t.work(ctx)
	}()
	<-done
}

func (t *Trash) work(ctx context.Context) {
	for ctx.Err() == nil {
		it, wait := t.next(time.Now())
		if it != nil {
			t.process(ctx, it)
			continue
		}
		var after <-chan time.Time
		if wait > 0 {
			after = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-after:
		}
	}
}

// process deletes an entry, or puts it back into the queue.
func (t *Trash) process(ctx context.Context, it *item) {
	if !it.checked {
		if _, err := os.Lstat(it.entry); errors.Is(err, fs.ErrNotExist) {
			t.done()
			return
		}
		if !t.check(it) {
			it.wait = min(max(2*it.wait, firstWait), maxWait)
			it.due = time.Now().Add(it.wait)
			t.enqueue(it)
			return
		}
		if err := durable.RenameVolatile(it.entry, it.entry+checkedSuffix); err != nil {
			t.report(Report{Entry: it.entry, Left: 1, Err: err})
			t.done()
			return
		}
		it.checked = true
	}
	r := remove(ctx, it.entry+checkedSuffix)
	if r.Err != nil && ctx.Err() != nil {
		t.enqueue(it)
		return
	}
	r.Entry = it.entry
	t.report(r)
	t.done()
}

// check says whether the entry may be deleted.
func (t *Trash) check(it *item) bool {
	if t.opts.Busy == nil {
		return true
	}
	busy, err := t.opts.Busy(it.entry)
	if err != nil && !it.reported {
		it.reported = true
		t.report(Report{Entry: it.entry, Err: fmt.Errorf("check %q before it is deleted: %w", it.entry, err)})
	}
	return err == nil && !busy
}

func (t *Trash) report(r Report) {
	if t.opts.Report != nil {
		t.opts.Report(r)
	}
}
