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

// How long git may work on one thing, unless the settings say otherwise. A checkout
// of a million files takes two minutes; the history of the largest public
// repositories arrives in less than an hour.
const (
	defaultWorkTimeout  = 10 * time.Minute
	defaultFetchTimeout = 2 * time.Hour
)

// schedule waits until a command may run, and returns a context that ends when it
// must be done. Call done at its end.
func (g *Git) schedule(ctx context.Context, c Command) (_ context.Context, done func(), err error) {
	if c.remote || g.inherited {
		return ctx, func() {}, nil // by runRemote, for all tries, or with the job
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

// shareOf returns the share of the slot of a context, or 1.
func shareOf(ctx context.Context) int {
	if n, ok := ctx.Value(shareKey{}).(int); ok {
		return n
	}
	return 1
}

// Schedule is for heavy local work that is not git's: it waits until that may run, and
// returns a context that ends when it must be done. Call done at its end. The error is
// the cause of ctx, as an *Error.
func (g *Git) Schedule(ctx context.Context, op string) (_ context.Context, done func(), err error) {
	return g.schedule(ctx, Command{Op: op, Heavy: true})
}

// ScheduleFetch is Schedule for what fetches from a remote, and is not git's.
func (g *Git) ScheduleFetch(ctx context.Context, op, url string) (_ context.Context, done func(), err error) {
	return g.scheduleRemote(ctx, work.Fetch, op, url)
}

// scheduleRemote is schedule for what talks to a remote.
func (g *Git) scheduleRemote(ctx context.Context, kind work.Kind, op, url string) (_ context.Context, done func(), err error) {
	slot, err := g.scheduler.Acquire(ctx, kind, false)
	if err != nil {
		return ctx, nil, queueError(op, url, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.fetchTimeout, &work.LimitError{Setting: "FETCH_TIMEOUT", Limit: g.fetchTimeout})
	return withShare(ctx, slot), func() { cancel(); slot.Release() }, nil
}

// queueError is the error about what ended before its turn, whose cause is err: nothing
// was asked of a remote.
func queueError(op, url string, err error) error {
	e := newError(op, url, "", err, false)
	if e.Kind == KindTimeout {
		e.Detail, e.Remedy = "it waited for its turn behind other work", "the remote was not asked; try again when less is under way"
	}
	return e
}

// largePack is the size of a pack from which resolving its deltas is a large job, as
// git says it while it receives: index-pack keeps some 100 bytes an object, and bases
// up to core.deltaBaseCacheLimit.
const largePack = "GiB"

// gate has a fetch wait for a processor when it has received a pack. Until then a
// fetch waits for the remote, and works as much as the remote has sent; what comes
// then, the resolution of deltas, is for processors alone, and a pack of a megabyte
// can ask for any amount of it.
type gate struct {
	ctx       context.Context // the command's
	scheduler *work.Scheduler
	cmd       *exec.Cmd
	silence   *alarm // paused while the command is stopped; may be nil
	large     bool
	passed    bool // or waits
	leave     context.CancelFunc
	waiting   sync.WaitGroup
	slot      *work.Slot
}

// line looks at what git says on its standard error. It has git's process group stopped
// while there is no slot. It does not wait itself: a command that has ended by then
// is done when its output was read.
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
	if t.ctx.Err() != nil { // it was asked to end before it was stopped
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
			return // git has ended, or it was asked to end, and goes on
		}
		t.slot = slot
		if t.silence != nil {
			t.silence.goOn()
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
