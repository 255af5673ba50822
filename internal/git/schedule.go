package git

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Default limits. A checkout of a million files takes two minutes; fetching the history
// of the largest public repositories takes less than an hour.
const (
	defaultWorkTimeout  = 10 * time.Minute
	defaultFetchTimeout = 2 * time.Hour
)

// schedule waits until a command may run, and returns a context with its time limit. Call
// done when the command has ended.
func (g *Git) schedule(ctx context.Context, c Command) (_ context.Context, done func(), err error) {
	if c.remote || g.inherited {
		return ctx, func() {}, nil // runRemote does it for all tries, or the parent process did
	}
	var slot *work.Slot
	if c.Heavy {
		if slot, err = g.scheduler.Acquire(ctx, work.CPU, c.Large); err != nil {
			return ctx, nil, queueError(c.Op, c.url, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.workTimeout, &work.LimitError{Setting: "WORK_TIMEOUT", Limit: g.workTimeout})
	return withShare(ctx, slot), func() { cancel(); slot.Release() }, nil
}

type shareKey struct{}

// withShare returns a context for the commands that run in a slot, which may be nil.
func withShare(ctx context.Context, slot *work.Slot) context.Context {
	if slot == nil {
		return ctx
	}
	return context.WithValue(ctx, shareKey{}, slot.Share())
}

// shareOf returns the share of the slot in ctx, 1 if there is none.
func shareOf(ctx context.Context) int {
	if n, ok := ctx.Value(shareKey{}).(int); ok {
		return n
	}
	return 1
}

// Schedule waits until heavy local work other than git may run, and returns a context
// with its time limit. Call done when the work has ended. The error is the cause of ctx,
// as an *Error.
func (g *Git) Schedule(ctx context.Context, op string) (_ context.Context, done func(), err error) {
	return g.schedule(ctx, Command{Op: op, Heavy: true})
}

// ScheduleFetch is Schedule for fetches from a remote other than git's.
func (g *Git) ScheduleFetch(ctx context.Context, op, url string) (_ context.Context, done func(), err error) {
	return g.scheduleRemote(ctx, work.Fetch, op, url)
}

// scheduleRemote is schedule for work that talks to a remote.
func (g *Git) scheduleRemote(ctx context.Context, kind work.Kind, op, url string) (_ context.Context, done func(), err error) {
	slot, err := g.scheduler.Acquire(ctx, kind, false)
	if err != nil {
		return ctx, nil, queueError(op, url, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.fetchTimeout, &work.LimitError{Setting: "FETCH_TIMEOUT", Limit: g.fetchTimeout})
	return withShare(ctx, slot), func() { cancel(); slot.Release() }, nil
}

// queueError returns the error for work whose context ended with err while it waited for
// a slot: the remote was not asked.
func queueError(op, url string, err error) error {
	e := newError(op, url, "", err, false)
	if e.Kind == KindTimeout {
		e.Detail, e.Remedy = "it waited for its turn behind other work", "the remote was not asked; try again when there is less work"
	}
	return e
}

// largePack is in git's progress of a pack so large that resolving its deltas is a large
// job: index-pack keeps some 100 bytes per object, and bases up to
// core.deltaBaseCacheLimit.
const largePack = "GiB"

// gate makes a fetch wait for a processor slot when it has received its pack. Until then
// its work is bounded by what the remote sends. Then it resolves deltas, which needs only
// the processor, and any amount of it even for a pack of a megabyte.
type gate struct {
	ctx       context.Context // the command's
	scheduler *work.Scheduler
	cmd       *exec.Cmd
	silence   *alarm // paused while the command is stopped; may be nil
	large     bool
	passed    bool // resolving has begun, or waits for a slot
	leave     context.CancelFunc
	waiting   sync.WaitGroup
	slot      *work.Slot
}

// line handles a line of git's stderr. It stops git's process group until there is a
// slot. It does not wait itself, because Wait returns only when all of stderr was read.
func (t *gate) line(line string) {
	if strings.HasPrefix(line, "Receiving objects") {
		t.large = t.large || strings.Contains(line, largePack)
	}
	if t.passed || !strings.HasPrefix(line, "Resolving deltas") {
		return
	}
	t.passed = true
	if t.slot = t.scheduler.Try(t.ctx, work.CPU, t.large); t.slot != nil || !sandbox.Signal(t.cmd, syscall.SIGSTOP) {
		return
	}
	if t.ctx.Err() != nil { // it got TERM before it was stopped
		sandbox.Signal(t.cmd, syscall.SIGCONT)
		return
	}
	if t.silence != nil {
		t.silence.pause()
	}
	var ctx context.Context
	ctx, t.leave = context.WithCancel(t.ctx)
	t.waiting.Go(func() {
		slot, err := t.scheduler.Acquire(ctx, work.CPU, t.large)
		if err != nil {
			return // git has ended, or terminate continued it
		}
		t.slot = slot
		if t.silence != nil {
			t.silence.resume()
		}
		sandbox.Signal(t.cmd, syscall.SIGCONT)
	})
}

// end is called when the command has ended.
func (t *gate) end() {
	if t.leave != nil {
		t.leave()
	}
	t.waiting.Wait()
	t.slot.Release()
}
