package checkout

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/intake"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

// A checkout reads large untrusted data: the index, its cache of trees, a comparison of
// two commits, attributes, pointers of git-lfs, .gitmodules. So a process of this
// program, confined and limited like git, does that job, and can exhaust or crash only
// itself. It reads the job from stdin and writes the answer as JSON to stdout. The answer
// is checked like git's output: it may be controlled by whoever made the repository.

const (
	// largeIndex is the size in bytes, with some 300,000 files, from which only one job
	// at a time reads an index: reading takes three times as much memory.
	largeIndex = 32 << 20
	// maxPointers and maxGitlinks bound the lists of an answer, maxElements its names and
	// values, and maxJobAnswer its bytes: enough for 100,000 pointers with names of 150
	// bytes. All are multiplied by the SizeFactor, the last two only if it is more than 1,
	// because it does not make maxStamps smaller.
	maxPointers  = 100_000
	maxGitlinks  = 10_000
	maxElements  = 1_000_000
	maxJobAnswer = 32 << 20

	jobFlag = "-git-job" // unknown to every program, so that one without ServeJob fails
)

// The values of job.Do.
const (
	doCheckout = "check out"
	doMove     = "move"
	doFill     = "fill"
	doStamps   = "find outdated times"
	doRestamp  = "restamp"
)

// job is the input of a job's process.
type job struct {
	Do, Git string // Git is the program
	Spec    Spec
	Whole   bool // the cone is nil, which gob does not distinguish from empty
	Large   bool // the index is large; a checkout has written it already

	From     string // for doMove
	Storage  string // for doFill
	Pointers []lfs.Pointer
	Bases    []Base  // for doStamps
	Stamps   []Stamp // for doRestamp
}

// Found describes the result of a checkout.
type Found struct {
	Tracked bool // the commit has Spec.Tracks or a file below it, in the cone or not
	// Pointers are the written files that are git-lfs pointers. LFSURL is the server that
	// .lfsconfig names, unchecked; empty if there is none.
	Pointers []lfs.Pointer
	LFSURL   gitref.Text
	// Gitlinks are the directories of submodules, and Submodules the sections of
	// .gitmodules, unchecked.
	Gitlinks   []Gitlink
	Submodules []Submodule
	// Unencoded are the first maxUnencoded files that git could not encode.
	Unencoded []Unencoded
	// Stamps is the result of Stamps.
	Stamps []Stamp `json:",omitempty"`
}

// Make writes the files of a commit into c.Dir, their index and the patterns of c.Cone,
// as the tree's uid. All objects must be in the store. After an error the content of
// c.Dir is unusable.
func Make(ctx context.Context, g *git.Git, c Spec) (Found, error) {
	return runJob(ctx, g, job{Do: doCheckout, Spec: c})
}

// Move writes the difference between the checkout of the commit from in c.Below, with the
// same cone, and that of c.Commit: files, whiteouts and the whole index, so that c.Dir is
// the next layer of an overlay. Its cost is proportional to the changes, plus reading and
// writing the index. After an error the content of c.Dir is unusable; if the error is
// ErrUnlike, use Make instead.
func Move(ctx context.Context, g *git.Git, c Spec, from string) (Found, error) {
	return runJob(ctx, g, job{Do: doMove, Spec: c, From: from})
}

// Fill writes the objects of pointers into the files of a checkout, which keep owner and
// mode. The storage must have all of them.
func Fill(ctx context.Context, g *git.Git, c Spec, storage string, pointers []lfs.Pointer) error {
	_, err := runJob(ctx, g, job{Do: doFill, Spec: c, Storage: storage, Pointers: pointers})
	return err
}

// runJob runs a job. If that made a large index, runJob runs it again as a large job.
func runJob(ctx context.Context, g *git.Git, j job) (Found, error) {
	j.Git, j.Whole, j.Spec.SizeFactor = g.Program(), j.Spec.Cone == nil, g.SizeFactor()
	for again := false; ; again = true {
		size, err := sizeOf(j.index())
		if err != nil {
			return Found{}, err
		}
		j.Large = size > largeIndex
		a, err := runOnce(ctx, g, j)
		switch {
		case err != nil:
			return Found{}, err
		case !a.Large:
			return a.Found, nil
		case j.Large || again || j.Do != doCheckout:
			err := errors.New("its process makes no progress")
			return Found{}, &giterror.Error{Op: "check out " + j.Spec.Commit, Kind: giterror.KindOther, Err: err}
		}
	}
}

// index returns the path of the index that a job reads first.
func (j job) index() string {
	switch j.Do {
	case doMove:
		return j.Spec.baseIndex()
	case doStamps, doRestamp:
		return j.Spec.layerIndex()
	}
	return filepath.Join(j.Spec.gitDir(), IndexFile)
}

func runOnce(ctx context.Context, g *git.Git, j job) (answer, error) {
	var stdin strings.Builder
	if err := gob.NewEncoder(&stdin).Encode(j); err != nil {
		return answer{}, err
	}
	c := j.Spec
	var read []string
	if c.Store != "" {
		read = append(read, c.Store)
	}
	if j.Do == doMove || j.Do == doStamps || j.Do == doRestamp {
		read = append(read, c.Below...)
	}
	for _, b := range j.Bases {
		read = append(read, b.Dir)
	}
	if j.Storage != "" {
		read = append(read, j.Storage)
	}
	if j.Do == doCheckout && c.TimesFrom.Index != "" {
		read = append(append(read, c.TimesFrom.Index), c.TimesFrom.Dirs...)
	}
	run := &jobRun{spec: c}
	_, err := g.Run(ctx, git.Command{
		Op: "check out " + c.Commit, Heavy: true, Large: j.Large,
		Judge: run.judge, MaxOutput: max(c.SizeFactor, 1).Of(maxJobAnswer), Args: []string{jobFlag}, Stdin: stdin.String(), Stderr: run.stderrLine,
		Env: []string{"GOTRACEBACK=none"}, // a trace would push the reason, in the first line, out of stderr
		Dir: c.Dir, UID: c.UID, GID: c.GID, Read: read, Write: []string{c.Dir, c.gitDir()},
	})
	return run.answer, err
}

// jobRun is one run of a job.
type jobRun struct {
	spec   Spec
	crash  string // the runtime's reason why the process ended
	answer answer
}

// judge decodes and checks the output of a job's process that ended with err. It returns
// git's stderr, for the classification of the error, and the error.
func (r *jobRun) judge(stdout []byte, err error) (stderr string, _ error) {
	if err == nil && r.crash != "" {
		err = errors.New("it printed that, but did not end")
	}
	if err != nil {
		return r.crashed(err)
	}
	d := json.NewDecoder(bytes.NewReader(stdout))
	d.DisallowUnknownFields()
	if err = intake.Elements(stdout, max(r.spec.SizeFactor, 1).Of(maxElements)); err == nil {
		err = d.Decode(&r.answer)
	}
	if err == nil {
		err = r.answer.check(r.spec)
	}
	if _, more := d.Token(); err == nil && more != io.EOF {
		err = errors.New("there is more than one answer")
	}
	if err != nil {
		return "", fmt.Errorf("the checkout process answered with garbage: %w", err)
	}
	f := r.answer.Failure
	switch {
	case f == nil:
		return "", nil
	case f.Unlike:
		return "", ErrUnlike
	}
	stderr = string(f.Stderr)
	if f.Full { // classified like git's own message
		stderr = syscall.ENOSPC.Error() + "\n" + stderr
	}
	if f.Memory {
		stderr = outOfMemory + "\n" + stderr
	}
	if f.Signal != 0 { // as git reports it for its children
		stderr += fmt.Sprintf("\ngit died of signal %d\n", f.Signal)
	}
	err = errors.New(giterror.Printable(cmp.Or(string(f.Text), "it failed")))
	if f.Quota { // which is this machine's, and no fault of the repository
		err = quotaError{err}
	}
	return stderr, err
}

// quotaError is an error of a job for which a quota has no room. It is a syscall.EDQUOT.
type quotaError struct{ error }

func (e quotaError) Is(target error) bool { return target == syscall.EDQUOT }

// stderrLine handles a line of a job's stderr. Go's runtime first prints why it ends, and then
// more than is kept of stderr.
func (r *jobRun) stderrLine(line string) {
	if r.crash == "" && crashLine.MatchString(line) {
		r.crash = line
	}
}

// outOfMemory is the message of Go's runtime.
const outOfMemory = "fatal error: out of memory"

var (
	crashLine  = regexp.MustCompile(`^(panic: |fatal error: |runtime|flag provided but not defined|WARNING: DATA RACE)`)
	memoryLine = regexp.MustCompile(`^(fatal error: |runtime).*(out of memory|cannot allocate memory|pthread_create failed|failed to create new OS thread)`)
)

// crashed returns the error for a job's process that crashed. Its stderr is not git's,
// and says nothing about the store.
func (r *jobRun) crashed(err error) (stderr string, _ error) {
	switch {
	case memoryLine.MatchString(r.crash):
		return outOfMemory, err
	case r.crash != "":
		return "", fmt.Errorf("the checkout process crashed: %w: %s", err, giterror.Printable(r.crash))
	}
	return "", fmt.Errorf("the checkout process crashed: %w", err)
}
