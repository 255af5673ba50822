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
	"github.com/helmdeck/repos/internal/gitindex"
	"github.com/helmdeck/repos/internal/lfs"
)

var (
	// errLarge is why a job has stopped at an index.
	errLarge = errors.New("the index is large")
	// errMemory is why a job does not read an index: Go's runtime has no error for
	// memory that it does not get, only many ways to crash.
	errMemory = errors.New("there is not enough memory for the index")
)

// ServeJob does the job of a process that was started of the plugin's own program, and
// ends that process. In every other one it returns at once. The main of a program
// that checks out, and the TestMain of its tests, call it before they do anything else.
func ServeJob() {
	if len(os.Args) != 2 || os.Args[1] != jobFlag {
		return
	}
	if err := serveJob(); err != nil {
		fmt.Fprintln(os.Stderr, "fatal error:", err)
		syscall.Exit(1)
	}
	// Not os.Exit, with which the race detector waits a second. Its words are enough: judge
	// looks for them.
	syscall.Exit(0)
}

func serveJob() error {
	limitMemory()
	unix.CloseOnExec(git.SelfDescriptor)
	exceeded := make(chan os.Signal, 1)
	signal.Notify(exceeded, syscall.SIGXCPU)
	go func() {
		<-exceeded
		os.Exit(128 + int(syscall.SIGXCPU)) // as a shell says it
	}()
	// git is asked to end, and waited for, before this process ends.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var j job
	if err := gob.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
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

// limitMemory has the garbage collector keep below the limit that this process has:
// what it can't map is its end.
func limitMemory() {
	if limit := memoryLimit(); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 4 * 3)
	}
}

// memoryLimit returns how many bytes of its own this process may have.
func memoryLimit() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(limit.Cur)
}

// runner does the job in its process.
type runner struct{ *git.Git }

// do does a job.
func (g runner) do(ctx context.Context, j job) (f Found, err error) {
	c := j.Spec
	var ix *index
	switch j.Do {
	case doCheckout:
		ix, err = g.checkOut(ctx, c, j.Large)
	case doMove:
		ix, err = g.move(ctx, c, j.From, j.Tree)
	case doFill:
		return f, c.fill(j.Storage, j.Pointers)
	default:
		err = fmt.Errorf("unknown job %q", j.Do)
	}
	if err != nil {
		return f, err
	}
	if f, err = g.find(ctx, ix); err != nil {
		return f, err
	}
	if j.Do == doCheckout && c.Like.Index != "" {
		ix.takeTimes(f.Pointers)
	}
	return f, ix.settle()
}

// find returns what there is in a checkout.
func (g runner) find(ctx context.Context, ix *index) (f Found, err error) {
	c, config, modules := ix.checkout, "", ""
	f.Unencoded = ix.unencoded
	f.Tracked = c.Tracks != "" && ix.Has(c.Tracks)
	if !c.NoLFS {
		if f.Pointers, config, err = g.lfsPointers(ctx, ix); err != nil {
			return f, err
		}
	}
	if config != "" && len(f.Pointers) > 0 {
		if f.LFSURL, err = g.lfsConfigURL(ctx, c.Store, config); err != nil {
			return f, err
		}
	}
	if c.Submodules {
		f.Gitlinks, modules = ix.gitlinks()
	}
	if modules != "" && len(f.Gitlinks) > 0 {
		if f.Submodules, err = g.submodules(ctx, c.Store, modules); err != nil {
			return f, err
		}
	}
	if err := f.check(); err != nil {
		return Found{}, fmt.Errorf("the commit %s: %w", c.Commit, err)
	}
	return f, nil
}

// fill writes the contents of pointers into their files, and what lstat says of those
// into the index.
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
	return ix.settle()
}

// failureOf says what an error is.
func failureOf(err error) *failure {
	f := &failure{
		Unlike: errors.Is(err, ErrUnlike), Memory: errors.Is(err, errMemory), Text: git.Text(err.Error()),
		Full: git.KindOf(err) == git.KindNoSpace || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT),
	}
	if e, ok := errors.AsType[*git.Error](err); ok {
		f.Stderr, f.Signal = git.Text(e.Stderr), int(e.Signal())
		if e.Err != nil {
			f.Text = git.Text(cmp.Or(e.Detail, e.Err.Error()))
		}
	}
	return f
}
