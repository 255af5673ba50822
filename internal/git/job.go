package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"syscall"
)

// A checkout reads in bulk what a repository says: its index, its cache of trees, a
// comparison of two commits, attributes, pointers of git-lfs, .gitmodules. So it is
// the job of a process of this program, confined and limited like git: what it takes
// and how it ends is that process's. The job comes as JSON on its stdin and the answer
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

	jobFlag    = "-git-job" // no flag of any program, so that one without ServeJob fails
	ownProgram = "/proc/self/exe"
	// jobProgram is how a job's process is executed: by a descriptor, because a path
	// can be another file's by now, or in a directory that is root's alone.
	jobDescriptor = 3
	jobProgram    = "/proc/self/fd/3"
)

// Found is what there is in a checkout.
type Found struct {
	Tracked bool // the commit has a file with the name Checkout.Tracks, or one below it, in the cone or not
	// Pointers are the files that were written for which git-lfs has to be asked, of
	// the server LFSURL: unchecked, and empty if .lfsconfig names none.
	Pointers []LFSPointer
	LFSURL   string
	// Gitlinks are the directories of submodules, and Submodules the sections of
	// .gitmodules: what the repository says, unchecked.
	Gitlinks   []Gitlink
	Submodules []Submodule
	// Unencoded are the first of the files that git could not encode.
	Unencoded []Unencoded
}

// Checkout writes the files of a commit into c.Dir, their index and the patterns of
// c.Cone. All contents must be in the store. It runs as the tree's uid. After an
// error what is in c.Dir is of no use.
func (g *Git) Checkout(ctx context.Context, c Checkout) (Found, error) {
	return g.runJob(ctx, c, job{Do: doCheckout})
}

// Move turns the checkout of another commit, from, that is in c.Dir and of the same
// cone, into that of c.Commit, whose tree has the ID tree. It costs what has changed,
// and to read and write the index. After an error what is in c.Dir is of no use; if
// that is ErrUnlike, the commit is better checked out whole.
func (g *Git) Move(ctx context.Context, c Checkout, from, tree string) (Found, error) {
	return g.runJob(ctx, c, job{Do: doMove, From: from, Tree: tree})
}

// FillLFS writes the contents of pointers, all of which the storage has, into the
// files of a checkout, which keep their owner and mode.
func (g *Git) FillLFS(ctx context.Context, c Checkout, storage string, pointers []LFSPointer) error {
	_, err := g.runJob(ctx, c, job{Do: doFill, Storage: octets(storage), Pointers: toWire(pointers)})
	return err
}

// runJob runs a job, and once more, as a large one, if it has made a large index.
func (g *Git) runJob(ctx context.Context, c Checkout, j job) (Found, error) {
	for {
		size, err := c.indexSize()
		if err != nil {
			return Found{}, err
		}
		j.Large = size > largeIndex
		a, err := g.runOnce(ctx, c, j)
		switch {
		case err != nil:
			return Found{}, err
		case !a.Large:
			return a.found(), nil
		case j.Large || j.Do != doCheckout:
			return Found{}, &Error{Op: "check out " + c.Commit, Kind: KindOther, Err: errors.New("its process does not get on")}
		}
	}
}

func (g *Git) runOnce(ctx context.Context, c Checkout, j job) (answer, error) {
	stdin, err := json.Marshal(j.of(g, c))
	if err != nil {
		return answer{}, err
	}
	self, err := os.Open(g.self)
	if err != nil {
		return answer{}, err
	}
	defer self.Close()
	read := []string{g.self, g.program, c.Store}
	if j.Storage != "" {
		read = append(read, string(j.Storage))
	}
	if j.Do == doCheckout {
		read = append(read, c.Like.paths()...)
	}
	run := &jobRun{checkout: c}
	_, err = g.run(ctx, command{
		op: "check out " + c.Commit, heavy: true, large: j.Large,
		job: run, args: []string{jobFlag}, files: []*os.File{self}, stdin: string(stdin),
		stderr: run.said,
		env:    []string{"GOTRACEBACK=none"}, // or the first line, which says why, is lost
		dir:    c.Dir, uid: c.UID, gid: c.GID, read: read, write: []string{c.Dir, c.gitDir()},
	})
	return run.answer, err
}

// jobRun is a job that is being done.
type jobRun struct {
	checkout Checkout
	crash    string // why the process has ended
	answer   answer
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
		err = r.answer.check(r.checkout)
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
	return words, errors.New(printable(cmp.Or(string(f.Text), "it failed")))
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
		return "", fmt.Errorf("the process that checks out crashed: %w: %s", err, printable(r.crash))
	}
	return "", fmt.Errorf("the process that checks out crashed: %w", err)
}
