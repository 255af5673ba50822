package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/changes"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/work"
)

// aheadTime limits the count of commits, which is only a part of an answer.
const aheadTime = time.Minute

// turns limits how many workspaces are inspected at a time, because each inspection takes memory
// for the names, and a part of the disk for a patch. Those of one subject leave a processor to others. One gives way after
// a second, because a reader may be slow: to other subjects, and to two more of its own subject. When all of these last,
// readers that read nearly nothing are given up for others.
var turns = work.Limits{Slots: 8, PerSubject: min(max(work.Processors()-1, 1), 2), Overdue: 8, Quantum: time.Second, Again: 2, AgainOfAll: 8}

// stalledReader is the time of work.Slot.Outside for whoever reads an answer.
const stalledReader = 10 * time.Second

// computing limits how many inspections compute in this process at a time: of each subject one, so
// that the inspections of one do not delay those of another. One gives way at once to those who wait.
var computing = work.Limits{Slots: 2, PerSubject: 1, Overdue: turns.Slots + turns.Overdue + turns.AgainOfAll}

// Inspector says what is in workspaces. It is safe for concurrent use.
type Inspector struct {
	viewer     *Viewer
	changes    *changes.Reader
	quarantine *quarantine.Quarantine
	ask        Ask
	turns      *work.Scheduler // Fetch for an inspection, and CPU while it computes
}

// Remote is what the remote of a workspace has by now.
type Remote struct {
	*quarantine.Upstream // nil if only At is known
	// At is when the remote said so last, and Asked is set if it did now.
	At    time.Time
	Asked bool
}

// Ask returns what the remote of a workspace has, as it says now or, if it does not say so, as it said last. It takes seconds at
// most.
type Ask func(ctx context.Context, rec meta.Workspace) Remote

// NewInspector returns an Inspector.
func NewInspector(v *Viewer, c *changes.Reader, q *quarantine.Quarantine, ask Ask) *Inspector {
	i := &Inspector{v, c, q, ask, work.NewScheduler([3]work.Limits{work.Fetch: turns, work.CPU: computing})}
	c.Compute = i.compute
	return i
}

// compute calls f on a thread of its own, with a low priority, when the subject has its turn.
func (i *Inspector) compute(ctx context.Context, f func() error) error {
	turn, err := i.turns.Acquire(ctx, work.CPU, false)
	if err != nil {
		return err
	}
	defer turn.Release()
	disk.Nice(disk.Lowest, func() { err = f() })
	return err
}

// Status is what a workspace changed against the commit that it began with. It takes a turn until
// Close, because a reader may be slow.
type Status struct {
	Record meta.Workspace
	*changes.Set
	// Head is where the container's HEAD is: a branch, which may have no commit, or a commit.
	// HeadError says why that is not known.
	Head      quarantine.Branch
	HeadError string
	// Ahead is how many commits HEAD has that no ref of the remote had when the workspace was made, nor has by now: see
	// Repo.Follow. It is nil if that is not known, because of AheadError.
	Ahead      *int64
	AheadError string
	// AheadAsOf is when the remote said last what it has, if it did not say so now: for Ahead and Worktrees.
	AheadAsOf time.Time
	// Worktrees are those with commits that count as those of HEAD do.
	// WorktreesError says why there may be more, or why it is not known how many commits they have.
	Worktrees      []Worktree
	WorktreesError string

	unasked bool // see status
	end     func()
	reading reading
}

// Context ends with that of the call, and with a *work.StalledError if others wait for the turn and the answer is read
// slowly: whoever writes it to a client gives up then.
func (s *Status) Context() context.Context { return s.reading.ctx }

// Writer returns a writer to w, which is to have all of the answer: the turn knows by it how much the client has read.
func (s *Status) Writer(w io.Writer) io.Writer { return moving{w, s.reading.turn} }

// Close ends the turn.
func (s *Status) Close() {
	s.reading.end()
	if s.Set != nil {
		s.Set.Close()
	}
	s.end()
}

// Worktree is a worktree in a workspace.
type Worktree struct {
	quarantine.Worktree
	Ahead *int64 // nil if it is not known
}

// withJob returns the context of an inspection: its turns, and those of git, are its subject's.
func (i *Inspector) withJob(ctx context.Context, id string) context.Context {
	return work.WithOwner(ctx, work.Owner{Name: fmt.Sprintf("the inspection of workspace %q", id), Subject: string(i.viewer.Subject(id))})
}

// open waits for a turn of the subject of a workspace, and opens the workspace only then, because an
// open one can't be evicted or reaped. With from, it opens that one too, in the same turn. ctx is that of withJob.
func (i *Inspector) open(ctx context.Context, id, from string) (p *pair, end func(), err error) {
	if id == from {
		return nil, nil, &PairError{fmt.Errorf("%q and %q are the same workspace: name two", from, id)}
	}
	turn, err := i.turns.Acquire(ctx, work.Fetch, false)
	if err != nil {
		return nil, nil, err
	}
	work.JobOf(ctx).GivesWay = true
	p = &pair{turn: turn}
	end = func() {
		p.Close()
		turn.Release()
	}
	if from != "" {
		if p.from, err = i.viewer.Open(ctx, from); err != nil {
			end()
			return nil, nil, err
		}
		ctx = p.from.Context() // the end of either one is that of both
	}
	if p.View, err = i.viewer.Open(ctx, id); err == nil && p.from != nil {
		err = p.check()
	}
	if err != nil {
		err = because(p.from, err)
		end()
		return nil, nil, err
	}
	return p, end, nil
}

// PairError says why two workspaces can't be compared.
type PairError struct{ error }

func (e *PairError) Unwrap() error { return e.error }

// pair is an open workspace, and the one that it is compared with.
type pair struct {
	*View
	from *View // nil for the checkout that the workspace began with
	turn *work.Slot
}

// Close closes both. It may be called more than once.
func (p *pair) Close() {
	for _, v := range []*View{p.View, p.from} {
		if v != nil {
			v.Close()
		}
	}
}

// check returns a *PairError if the workspaces have nothing in common.
func (p *pair) check() error {
	if a, b := p.from.Record, p.Record; a.Clone != b.Clone {
		return &PairError{fmt.Errorf("workspace %q is of repository %s and subject %q, and %q is of %s and %q: only workspaces of one repository and one subject can be compared",
			a.ID, a.Options["repo"], a.Options["subject"], b.ID, b.Options["repo"], b.Options["subject"])}
	}
	return nil
}

// source returns what is compared.
func (p *pair) source() changes.Source {
	s := changes.Source{Before: changes.Side{Root: p.Base, Checkout: p.Base}, After: changes.Side{Root: p.Merged, Checkout: p.Base}, Dirs: p.Uppers}
	s.Skip = warmOf(p.View)
	if p.from != nil {
		s.Before = changes.Side{Root: p.from.Merged, Checkout: p.from.Base}
		s.Dirs = changes.Unshared(slices.Concat(p.from.Uppers, p.from.Tree), slices.Concat(p.Uppers, p.Tree))
		s.Skip = append(s.Skip, warmOf(p.from)...)
	}
	return s
}

// warmOf returns the warm paths of a workspace.
func warmOf(v *View) (paths []string) {
	for _, p := range v.Record.Warm {
		if p.LeftOut == "" {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// because returns the reason why a view, which may be nil, has ended, if it has, and else err.
func because(v *View, err error) error {
	if err != nil && v != nil && v.Context().Err() != nil {
		return context.Cause(v.Context())
	}
	return err
}

// Status returns what a workspace changed, against the checkout that it began with or, if from is not empty, against
// another workspace of its clone. Close it. The errors are those of Open, a *PairError, or of the disk.
func (i *Inspector) Status(ctx context.Context, id, from string) (*Status, error) {
	ctx = i.withJob(ctx, id)
	s, err := i.status(ctx, id, from, nil)
	if err == nil && s.unasked {
		s.Close()
		remote := i.ask(ctx, s.Record) // without a turn: a remote decides how long it takes
		if remote.Upstream != nil {
			defer remote.Upstream.Close()
		}
		s, err = i.status(i.withJob(ctx, id), id, from, &remote) // a new job: the first one gives way by now
	}
	return s, err
}

// status is Status with the remote's answer. It is nil before the remote was asked: then the result has no more than the
// record if commits are to be counted.
func (i *Inspector) status(ctx context.Context, id, from string, remote *Remote) (*Status, error) {
	v, end, err := i.open(ctx, id, from)
	if err != nil {
		return nil, err
	}
	s := &Status{Record: v.Record, end: end}
	if err := i.fill(s, v, remote); err != nil {
		if s.Set != nil {
			s.Set.Close()
		}
		end()
		return nil, err
	}
	v.Close()
	s.reading = v.read(ctx)
	return s, nil
}

// find finds what a workspace changed.
func (i *Inspector) find(v *pair) (set *changes.Set, err error) {
	err = i.quarantine.WithRoom(v.Context(), func() (err error) {
		set, err = i.changes.Find(v.Context(), v.source())
		return err
	})
	return set, err
}

// fill looks at a workspace. remote is that of status.
func (i *Inspector) fill(s *Status, p *pair, remote *Remote) (err error) {
	v := p.View
	var repo *quarantine.Repo
	var found []quarantine.Worktree
	var repoErr, foundErr, headErr error
	err = i.compute(v.Context(), func() error { // packed-refs may be large
		if repo, repoErr = quarantine.OpenRepo(v.Context(), v.Merged, filepath.Join(v.GitLayer, ".git")); repoErr == nil {
			found, foundErr = repo.Worktrees()
			s.Head, headErr = repo.Head()
			repo.Forget()
		}
		return nil
	})
	if err != nil {
		return because(v, err)
	}
	if repoErr == nil {
		defer repo.Close()
		counts := len(found) > 0 || headErr == nil && isNew(repo, s.Head)
		if s.unasked = counts && remote == nil; s.unasked {
			return nil
		}
	}
	if s.Set, err = i.find(p); err != nil {
		return because(v, err)
	}
	if repoErr != nil {
		s.HeadError = repoErr.Error()
		return nil
	}
	s.follow(repo, found, remote)
	if s.Worktrees, err = i.worktrees(v, repo, found, foundErr); err != nil {
		if v.Context().Err() != nil {
			return because(v, err)
		}
		s.WorktreesError = err.Error()
	}
	if headErr != nil {
		s.HeadError = headErr.Error()
		return nil
	}
	s.Ahead, err = i.ahead(v, repo, s.Head)
	if err = because(v, err); err != nil && v.Context().Err() == nil {
		s.AheadError, err = err.Error(), nil
	}
	return err
}

// isNew reports whether a branch has a commit that no ref was at when the workspace began.
func isNew(repo *quarantine.Repo, b quarantine.Branch) bool { return b.ID != "" && !repo.Began(b.ID) }

// follow makes the counts of repo leave out what the remote has. remote may be nil.
func (s *Status) follow(repo *quarantine.Repo, found []quarantine.Worktree, remote *Remote) {
	if remote == nil {
		return
	}
	if !remote.Asked {
		s.AheadAsOf = remote.At
	}
	if remote.Upstream == nil {
		return
	}
	names := []string{s.Head.Name}
	for _, w := range found {
		names = append(names, w.Head.Name)
	}
	repo.Follow(remote.Upstream, names)
}

// worktrees returns those of found that have new commits. The error, or err, is about a part of them.
func (i *Inspector) worktrees(v *View, repo *quarantine.Repo, found []quarantine.Worktree, err error) (list []Worktree, _ error) {
	if len(found) == 0 {
		return nil, err
	}
	counts, countErr := i.aheadOf(v, repo, found)
	if countErr != nil {
		err = countErr
	}
	for _, w := range found {
		switch n, known := counts[w.Head.ID]; {
		case !known:
			list = append(list, Worktree{Worktree: w})
		case n > 0:
			list = append(list, Worktree{w, &n})
		}
	}
	return list, err
}

// aheadOf counts the commits of worktrees, by the ID of their newest one.
func (i *Inspector) aheadOf(v *View, repo *quarantine.Repo, found []quarantine.Worktree) (counts map[string]int64, err error) {
	ctx, cancel := context.WithTimeout(v.Context(), aheadTime)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil && v.Context().Err() == nil {
			err = fmt.Errorf("to count the commits of worktrees takes more than %v", aheadTime)
		}
	}()
	var tips []quarantine.Branch
	for n, w := range found { // two worktrees may have a detached HEAD
		tips = append(tips, quarantine.Branch{Name: fmt.Sprintf("worktree/%d", n), ID: w.Head.ID})
	}
	taken, err := i.quarantine.Take(ctx, repo, tips, func(string, int64, int64) {})
	if err != nil {
		return nil, err
	}
	counts, err = taken.Ahead(ctx)
	return counts, errors.Join(err, taken.Close())
}

// ahead counts the commits of a branch.
func (i *Inspector) ahead(v *View, repo *quarantine.Repo, head quarantine.Branch) (*int64, error) {
	var n int64
	if !isNew(repo, head) {
		return &n, nil
	}
	ctx, cancel := context.WithTimeout(v.Context(), aheadTime)
	defer cancel()
	taken, err := i.quarantine.Take(ctx, repo, []quarantine.Branch{head}, func(string, int64, int64) {})
	if err != nil && ctx.Err() != nil && v.Context().Err() == nil {
		err = fmt.Errorf("to count its commits takes more than %v", aheadTime)
	}
	if err != nil {
		return nil, err
	}
	n = taken.Commits
	return &n, taken.Close()
}

// Output is something that is ready to be written. Close it.
type Output struct {
	Record meta.Workspace // of the workspace that it is of

	write   func(ctx context.Context, w io.Writer) error
	close   func()
	reading reading
}

// Context ends when the output can't be written any more: see View.Context. It ends with a *work.StalledError if others wait
// for the turn and the output is read slowly.
func (o *Output) Context() context.Context { return o.reading.ctx }

// Write writes the output. After an error, a part may have been written.
func (o *Output) Write(w io.Writer) error {
	ctx := o.reading.ctx
	err := o.write(ctx, moving{w, o.reading.turn})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close ends it.
func (o *Output) Close() {
	o.reading.end()
	o.close()
}

// reading is the part of an inspection in which a client reads the answer.
type reading struct {
	turn *work.Slot
	ctx  context.Context
	end  func()
}

// read begins it. ctx is that of the answer.
func (p *pair) read(ctx context.Context) reading {
	ctx, end := p.turn.Outside(ctx, stalledReader)
	return reading{p.turn, ctx, end}
}

// moving notes what is written as moved.
type moving struct {
	io.Writer
	turn *work.Slot
}

func (m moving) Write(data []byte) (int, error) {
	n, err := m.Writer.Write(data)
	m.turn.Moved(int64(n))
	return n, err
}

// Diff prepares a patch of what Status returns, with ignored files if ignored is set.
func (i *Inspector) Diff(ctx context.Context, id, from string, ignored bool) (*Output, error) {
	ctx = i.withJob(ctx, id)
	v, end, err := i.open(ctx, id, from)
	if err != nil {
		return nil, err
	}
	var p *changes.Patch
	err = i.quarantine.WithRoom(v.Context(), func() (err error) {
		p, err = i.changes.Diff(v.Context(), v.source(), gitref.Format(v.Record.Commit), ignored)
		return err
	})
	if err != nil {
		err = because(v.View, err)
		end()
		return nil, err
	}
	v.Close() // the patch is of copies
	if err := i.quarantine.WithRoom(ctx, func() error { return p.Make(ctx) }); err != nil {
		p.Close()
		end()
		return nil, err
	}
	return &Output{Record: v.Record, reading: v.read(ctx), write: p.Write, close: func() { p.Close(); end() }}, nil
}

// Archive prepares an archive of what Status returns, with ignored files if ignored is set.
func (i *Inspector) Archive(ctx context.Context, id, from string, ignored bool) (*Output, error) {
	ctx = i.withJob(ctx, id)
	v, end, err := i.open(ctx, id, from)
	if err != nil {
		return nil, err
	}
	set, err := i.find(v)
	if err != nil {
		err = because(v.View, err)
		end()
		return nil, err
	}
	owner := changes.Owner{UID: int(v.Record.UID), GID: int(v.Record.GID)}
	return &Output{Record: v.Record, reading: v.read(v.Context()), close: func() { set.Close(); end() }, write: func(ctx context.Context, w io.Writer) error {
		return set.Tar(ctx, v.source(), owner, ignored, w)
	}}, nil
}
