package git

import (
	"context"
	"errors"
	"math"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Default limits. A checkout of a million files takes two minutes; fetching the history
// of the largest public repositories takes less than an hour.
const (
	defaultWorkTimeout  = 10 * time.Minute
	defaultFetchTimeout = 2 * time.Hour
)

const (
	// questionCPU is the limit of questions, which a Mount waits for. They take
	// milliseconds.
	questionCPU = 20 * time.Second
	// defaultFetchCPU is enough for index-pack of most repositories: one processor resolves
	// the ten million objects of Linux in some ten minutes. All threads count, and take more
	// together.
	defaultFetchCPU = time.Hour
	// defaultMemory is three times what index-pack needs for the whole history of Linux.
	// A hostile repository can take any amount: a tree of ten billion files is a download
	// of one kilobyte.
	defaultMemory = 4 << 30
	// The first heavy command of a subject is nicer than the plugin by heavyNice, which
	// leaves three quarters of a busy processor to a question. Each further concurrent
	// command of the subject is nicer by niceStep, and gets a third of the processor time
	// of the command before it, so that many commands of one subject do not outweigh a
	// single command of another.
	heavyNice = 5
	niceStep  = 5
	nicest    = 19
	// threadMemory bounds the threads that resolve deltas: together they keep bases of up to
	// core.deltaBaseCacheLimit for each, 96 MiB, and each has a stack of 8 MiB, which counts. So in the
	// default limit they may be 16, and take two fifths of it, unless files are large: see needsOneThread.
	threadMemory = 256 << 20
	// calm is how long processors must be free before threads that resolve deltas get more of them, or
	// others, so that many short jobs do not move the threads all the time.
	calm = 100 * time.Millisecond
)

// threads returns how many threads resolve the deltas of a fetch.
func (c Config) threads() int { return threadsOf(work.Processors(), c.Memory) }

// threads returns how many threads resolve the deltas of a command that fetches.
func (c Command) threads(set Config) int {
	if c.oneThread {
		return 1
	}
	return set.threads()
}

// needsOneThread reports whether a fetch that ended with err may succeed with one thread: each holds a
// delta, its base and its result, which may be as large as the largest file.
func (g *Git) needsOneThread(err error) bool {
	e, ok := errors.AsType[*giterror.Error](err)
	return ok && e.Detail == sandbox.Limits{Memory: g.config.Memory}.OutOfMemory() && g.config.threads() > 1
}

// threadsOf returns as many threads as git starts for a number of processors (builtin/index-pack.c),
// but no more than memory, the limit of private memory, is enough for.
func threadsOf(processors int, memory int64) int {
	n := processors
	switch {
	case n >= 40:
		n = 20
	case n >= 6:
		n /= 2
	case n >= 4:
		n = 3
	}
	return max(1, min(n, int(memory/threadMemory)))
}

// Schedule waits until heavy local work other than git may run, and returns a context
// with its time limit. Call done when the work has ended. The error is the cause of ctx,
// as an *giterror.Error.
func (g *Git) Schedule(ctx context.Context, op string) (_ context.Context, done func(), err error) {
	return g.schedule(ctx, work.CPU, false, op, "")
}

// ScheduleFetch is Schedule for fetches from a remote other than git's.
func (g *Git) ScheduleFetch(ctx context.Context, op, url string) (_ context.Context, done func(), err error) {
	return g.schedule(ctx, work.Fetch, false, op, url)
}

// schedule is Schedule for all kinds of work.
func (g *Git) schedule(ctx context.Context, kind work.Kind, large bool, op, url string) (_ context.Context, done func(), err error) {
	slot, err := g.config.Scheduler.Acquire(ctx, kind, large)
	if err != nil {
		return ctx, nil, queueError(op, url, err)
	}
	if slot != nil {
		ctx = context.WithValue(ctx, shareKey{}, slot.Share())
	}
	ctx, cancel := withTimeout(ctx, kind, g.config)
	return ctx, func() { cancel(); slot.Release() }, nil
}

// withTimeout returns a context with the time limit of a kind of work.
func withTimeout(ctx context.Context, kind work.Kind, set Config) (context.Context, context.CancelFunc) {
	setting, limit := "FETCH_TIMEOUT", set.FetchTimeout
	if kind == work.CPU {
		setting, limit = "WORK_TIMEOUT", set.WorkTimeout
	}
	return context.WithTimeoutCause(ctx, limit, &work.LimitError{Setting: setting, Limit: limit})
}

// crowdNice returns by how much threads on fewer processors must be nicer, so that they outweigh
// others there no more than one thread does: a step takes a fifth of the weight.
func crowdNice(threads, processors int) int {
	return max(0, int(math.Round(math.Log(float64(threads)/float64(processors))/math.Log(1.25))))
}

type shareKey struct{}

// shareOf returns the share of the slot in ctx, or 1.
func shareOf(ctx context.Context) int {
	n, _ := ctx.Value(shareKey{}).(int)
	return max(n, 1)
}

// queueError returns the error for work whose context ended with err while it waited for
// a slot: the remote was not asked.
func queueError(op, url string, err error) error {
	e := giterror.New(op, url, "", err, false)
	if e.Kind == giterror.KindTimeout {
		e.Detail, e.Remedy = "it waited for its turn behind other work", "the remote was not asked; try again when there is less work"
	}
	return e
}

// niceOf returns the nice value of a heavy command, relative to the plugin, by the share
// of its slot.
func niceOf(share int) int { return min(heavyNice+niceStep*(share-1), nicest) }

// limitsOf returns the limits of a command; ctx has its slot. What a push or an inspection computes for long is
// nicest then: no mount waits for it, and others that end soon are not to wait for it either.
func limitsOf(ctx context.Context, c Command, set Config) sandbox.Limits {
	l := sandbox.Limits{CPU: set.WorkCPU, Setting: "WORK_TIMEOUT", Memory: set.Memory, Nice: niceOf(shareOf(ctx))}
	if job := work.JobOf(ctx); job != nil && job.GivesWay {
		l.Lasting = nicest
	}
	switch {
	case c.question:
		l.CPU, l.Setting, l.Nice = questionCPU, "", 0
	case c.remote || c.fetches:
		l.CPU, l.Setting = set.FetchCPU, "FETCH_CPU_TIME"
	}
	return l
}

// largePack is the unit that git's progress shows for a pack with large work to resolve its
// deltas: index-pack keeps some 100 bytes per object, and bases up to
// core.deltaBaseCacheLimit.
const largePack = "GiB"

// gate makes a fetch wait for a processor slot when it has received its pack. Until then
// the data from the remote bounds its work. Then it resolves deltas, which needs only the
// processor, and can take any time even for a pack of a megabyte.
type gate struct {
	ctx       context.Context // the command's
	scheduler *work.Scheduler
	cmd       *exec.Cmd
	threads   int    // that resolve deltas
	nice      int    // of the command, relative to the plugin
	silence   *alarm // paused while the command is stopped; may be nil
	large     bool
	passed    bool // the command resolves deltas, or waits for a slot to do so
	leave     context.CancelFunc
	following sync.WaitGroup
	slot      *work.Slot
}

// line handles a line of git's stderr. It stops git's process group until a slot is free.
// It does not wait itself, because Wait returns only when all of stderr was read.
func (t *gate) line(line string) {
	if strings.HasPrefix(line, "Receiving objects") {
		t.large = t.large || strings.Contains(line, largePack)
	}
	if t.passed || !strings.HasPrefix(line, "Resolving deltas") {
		return
	}
	t.passed = true
	if t.slot = t.scheduler.Try(t.ctx, work.CPU, t.large); t.slot == nil && !t.stop() {
		return
	}
	var ctx context.Context
	ctx, t.leave = context.WithCancel(t.ctx)
	t.following.Go(func() {
		if t.slot == nil && !t.proceed(ctx) {
			return // git has ended, or terminate continued it
		}
		t.spread(ctx)
	})
}

// stop stops git, unless it has ended.
func (t *gate) stop() bool {
	if !sandbox.Signal(t.cmd, syscall.SIGSTOP) {
		return false
	}
	if t.ctx.Err() != nil { // it got TERM before it was stopped
		sandbox.Signal(t.cmd, syscall.SIGCONT)
		return false
	}
	if t.silence != nil {
		t.silence.pause()
	}
	return true
}

// proceed waits for a slot, and continues git. It returns false if ctx has ended before.
func (t *gate) proceed(ctx context.Context) bool {
	slot, err := t.scheduler.Acquire(ctx, work.CPU, t.large)
	if err != nil {
		return false
	}
	t.slot = slot
	if t.silence != nil {
		t.silence.resume()
	}
	sandbox.Signal(t.cmd, syscall.SIGCONT)
	return true
}

// spread lets the threads that resolve deltas use the processors that no slot is held for, until ctx
// ends.
func (t *gate) spread(ctx context.Context) {
	type room struct{ first, n int }
	all := room{0, work.Processors()}
	var waited <-chan time.Time // since other processors than it has are free
	for has := all; ; {
		var gets room
		var changed <-chan struct{}
		gets.first, gets.n, changed = t.slot.Room(all.n)
		if gets.n >= t.threads {
			gets = all // the kernel knows best which are idle
		}
		give := func() {
			sandbox.Restrict(t.cmd, gets.first, gets.n, t.nice+crowdNice(t.threads, gets.n))
			has, waited = gets, nil
		}
		switch {
		case gets.n < has.n:
			give()
		case gets == has:
			waited = nil
		case waited == nil:
			waited = time.After(calm)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-waited:
			give()
		}
	}
}

// end is called when the command has ended.
func (t *gate) end() {
	if t.leave != nil {
		t.leave()
	}
	t.following.Wait()
	t.slot.Release()
}
