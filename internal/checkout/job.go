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
	"regexp"
	"strings"
	"syscall"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/lfs"
)

// A checkout reads in bulk what a repository says: its index, its cache of trees, a
// comparison of two commits, attributes, pointers of git-lfs, .gitmodules. So it is
// the job of a process of this program, confined and limited like git: what it takes
// and how it ends is that process's. The job comes on its stdin and the answer
// as JSON on its stdout. An answer is judged like git's output: as input of whoever
// made the repository.

const (
	// largeIndex is how many bytes an index has, of some 300,000 files, that only one
	// job reads at a time: it takes three times as much.
	largeIndex = 32 << 20
	// maxPointers and maxGitlinks bound the lists that are an answer's, and maxJobAnswer
	// its bytes, among them those of 100,000 pointers with names of 150 bytes.
	maxPointers  = 100_000
	maxGitlinks  = 10_000
	maxJobAnswer = 32 << 20

	jobFlag = "-git-job" // no flag of any program, so that one without ServeJob fails
)

// What a job can be to do.
const (
	doCheckout = "check out"
	doMove     = "move"
	doFill     = "fill"
)

// job is what a process is given to do.
type job struct {
	Do, Git string // Git is the program
	Spec    Spec
	Whole   bool // there is no cone, which gob takes for an empty one
	Large   bool // the index is large; of a checkout it is there already

	From, Tree string // to move
	Storage    string // to fill
	Pointers   []lfs.Pointer
}

// Found is what there is in a checkout.
type Found struct {
	Tracked bool // the commit has a file with the name Spec.Tracks, or one below it, in the cone or not
	// Pointers are the files that were written for which git-lfs has to be asked, of
	// the server LFSURL: unchecked, and empty if .lfsconfig names none.
	Pointers list[lfs.Pointer]
	LFSURL   git.Text
	// Gitlinks are the directories of submodules, and Submodules the sections of
	// .gitmodules: what the repository says, unchecked.
	Gitlinks   list[Gitlink]
	Submodules list[Submodule]
	// Unencoded are the first of the files that git could not encode.
	Unencoded list[Unencoded]
}

// Make writes the files of a commit into c.Dir, their index and the patterns of
// c.Cone. All contents must be in the store. It runs as the tree's uid. After an
// error what is in c.Dir is of no use.
func Make(ctx context.Context, g *git.Git, c Spec) (Found, error) {
	return runJob(ctx, g, job{Do: doCheckout, Spec: c})
}

// Move turns the checkout of another commit, from, that is in c.Dir and of the same
// cone, into that of c.Commit, whose tree has the ID tree. It costs what has changed,
// and to read and write the index. After an error what is in c.Dir is of no use; if
// that is ErrUnlike, the commit is better checked out whole.
func Move(ctx context.Context, g *git.Git, c Spec, from, tree string) (Found, error) {
	return runJob(ctx, g, job{Do: doMove, Spec: c, From: from, Tree: tree})
}

// Fill writes the contents of pointers, all of which the storage has, into the
// files of a checkout, which keep their owner and mode.
func Fill(ctx context.Context, g *git.Git, c Spec, storage string, pointers []lfs.Pointer) error {
	_, err := runJob(ctx, g, job{Do: doFill, Spec: c, Storage: storage, Pointers: pointers})
	return err
}

// runJob runs a job, and once more, as a large one, if it has made a large index.
func runJob(ctx context.Context, g *git.Git, j job) (Found, error) {
	j.Git, j.Whole = g.Program(), j.Spec.Cone == nil
	for {
		size, err := j.Spec.indexSize()
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
		case j.Large || j.Do != doCheckout:
			return Found{}, &git.Error{Op: "check out " + j.Spec.Commit, Kind: git.KindOther, Err: errors.New("its process does not get on")}
		}
	}
}

func runOnce(ctx context.Context, g *git.Git, j job) (answer, error) {
	var stdin strings.Builder
	if err := gob.NewEncoder(&stdin).Encode(j); err != nil {
		return answer{}, err
	}
	c := j.Spec
	read := []string{c.Store}
	if j.Storage != "" {
		read = append(read, j.Storage)
	}
	if j.Do == doCheckout {
		read = append(read, c.Like.paths()...)
	}
	run := &jobRun{spec: c}
	_, err := g.Run(ctx, git.Command{
		Op: "check out " + c.Commit, Heavy: true, Large: j.Large,
		Judge: run.judge, MaxOutput: maxJobAnswer, Args: []string{jobFlag}, Stdin: stdin.String(), Stderr: run.said,
		Env: []string{"GOTRACEBACK=none"}, // or the first line, which says why, is lost
		Dir: c.Dir, UID: c.UID, GID: c.GID, Read: read, Write: []string{c.Dir, c.gitDir()},
	})
	return run.answer, err
}

// jobRun is a job that is being done.
type jobRun struct {
	spec   Spec
	crash  string // why the process has ended
	answer answer
}

// judge takes what a job's process has written and how it ended, and returns what it
// says of git's words, and the error.
func (r *jobRun) judge(stdout []byte, err error) (words string, _ error) {
	if err == nil && r.crash != "" {
		err = errors.New("it says so, and goes on")
	}
	if err != nil {
		return r.crashed(err)
	}
	d := json.NewDecoder(bytes.NewReader(stdout))
	d.DisallowUnknownFields()
	if err = d.Decode(&r.answer); err == nil {
		err = r.answer.check(r.spec)
	}
	if _, more := d.Token(); err == nil && more != io.EOF {
		err = errors.New("there is more than one answer")
	}
	if err != nil {
		return "", fmt.Errorf("the process that checks out answers with garbage: %w", err)
	}
	f := r.answer.Failure
	switch {
	case f == nil:
		return "", nil
	case f.Unlike:
		return "", ErrUnlike
	}
	words = string(f.Stderr)
	if f.Full { // a hint, as git's words are
		words = syscall.ENOSPC.Error() + "\n" + words
	}
	if f.Memory {
		words = outOfMemory + "\n" + words
	}
	if f.Signal != 0 { // as git says it of what it executes
		words += fmt.Sprintf("\ngit died of signal %d\n", f.Signal)
	}
	return words, errors.New(git.Printable(cmp.Or(string(f.Text), "it failed")))
}

// said takes a line of the stderr of a job's process. Go's runtime says first why it
// ends, and more than what is kept of stderr after that.
func (r *jobRun) said(line string) {
	if r.crash == "" && crash.MatchString(line) {
		r.crash = line
	}
}

// outOfMemory is how a program of Go says it.
const outOfMemory = "fatal error: out of memory"

var (
	crash    = regexp.MustCompile(`^(panic: |fatal error: |runtime|flag provided but not defined|WARNING: DATA RACE)`)
	noMemory = regexp.MustCompile(`^(fatal error: |runtime).*(out of memory|cannot allocate memory|pthread_create failed|failed to create new OS thread)`)
)

// crashed is what to say of a job's process that did not come to its end. Its stderr is
// not git's, and says nothing of the store.
func (r *jobRun) crashed(err error) (words string, _ error) {
	switch {
	case noMemory.MatchString(r.crash):
		return outOfMemory, err
	case r.crash != "":
		return "", fmt.Errorf("the process that checks out crashed: %w: %s", err, git.Printable(r.crash))
	}
	return "", fmt.Errorf("the process that checks out crashed: %w", err)
}
