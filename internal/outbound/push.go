package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// turns limits how many pushes and bundles there are at a time. Each may take twice
// PUSH_MAX_SIZE of the disk. A turn gives way after a second, whatever its push does, because
// a remote, or the reader of a bundle, decides how long it takes, and can make progress last too. It gives
// way to the subject's own pushes as well, because the volumes of one subject have different remotes.
var turns = work.Limits{Slots: 8, PerSubject: 1, Overdue: 16, Quantum: time.Second, Again: 2, AgainOfAll: 8}

// stalledPush and stalledReader are the times of work.Slot.Outside, for a remote that a push talks to and for the reader of a
// bundle. A remote may need long to check what it got.
const stalledPush, stalledReader = 30 * time.Second, 10 * time.Second

// askTime limits the question for the remote's branch, because the workspace is held meanwhile.
const askTime = time.Minute

// Workspace is a workspace that is open for reading.
type Workspace struct {
	Record   meta.Workspace // must not be changed
	Root     *os.File       // the root of the files as a container sees them
	GitLayer string         // the directory of the git layer
	// Context ends when the files must not be read any more. Its cause says why.
	Context context.Context
	Close   func() error
}

// Config has what New needs.
type Config struct {
	Quarantine *quarantine.Quarantine
	Git        *git.Git
	Work       *work.Group
	// Subject returns the subject of a workspace; empty if there is none with this ID.
	Subject func(id string) volume.Subject
	// Open opens a workspace. Its errors are shown.
	Open func(ctx context.Context, id string) (Workspace, error)
	// Credential returns the credential for a push to a URL, for a subject, by its name or, if
	// that is empty, the one that fits best; nil if there is none.
	Credential func(ctx context.Context, url string, s volume.Subject, name string) (*git.Auth, error)
	Schemes    volume.Schemes
	// LFS returns the directory in which the LFS objects of a clone are stored, by its key.
	LFS func(clone string) string
	// Pushed, if not nil, is called after each push that was tried. It must not block.
	Pushed func(ctx context.Context, r Result, err error)
	Log    *logrus.Logger
}

// Pusher pushes and exports. It is safe for concurrent use.
type Pusher struct {
	config Config
	turns  *work.Scheduler
}

// New returns a Pusher.
func New(c Config) *Pusher {
	return &Pusher{config: c, turns: work.NewScheduler([3]work.Limits{work.Fetch: turns})}
}

// Request asks for a push or a bundle.
type Request struct {
	Workspace string // ID
	// Branch is the branch in the workspace. HEAD means the commit of HEAD. Empty means the branch that HEAD is
	// at, and for a bundle all at commits that no ref of the remote was at.
	Branch string
	// RemoteBranch is the branch at the remote; empty means Branch. A bundle needs neither it nor Lease.
	RemoteBranch string
	// Lease, if not empty, is the commit that the remote's branch must be at to be overwritten.
	Lease string
	// WithoutLFS allows LFS pointers whose objects are not stored, and contents in place of LFS pointers.
	WithoutLFS bool
}

// Result says what was pushed, as far as it is known.
type Result struct {
	Workspace, Volume, Clone string
	Subject                  volume.Subject
	Repo                     string // URL
	Branch, RemoteBranch     string
	Old, New                 string // commits; Old is empty for a new branch
	// Commits and Objects are those that the volume did not begin with, and Bytes is the size of
	// their pack. All are 0 if Old is New, because nothing was to be done then.
	Commits, Objects, Bytes int64
	Warnings                []string // quarantine.Taken.Warnings
}

// Summary says for people what was pushed; empty if nothing was.
func (r Result) Summary() string {
	if r.Commits == 0 && r.Objects == 0 {
		return ""
	}
	text := fmt.Sprintf("%d commits with %d objects", r.Commits, r.Objects)
	if len(r.Warnings) > 0 {
		text += "; git fsck warns: " + r.Warnings[0]
	}
	if len(r.Warnings) > 1 {
		text += ", and more"
	}
	return text
}

// add adds what was taken.
func (r *Result) add(t *quarantine.Taken) {
	r.Commits, r.Objects, r.Bytes, r.Warnings = t.Commits, t.Objects, t.Bytes, t.Warnings
}

// Progress says what is being done, with the objects that are done and their number if known.
type Progress = quarantine.Progress

// Push pushes a branch of a workspace to the remote of its volume. It returns when nothing of the
// push runs any more, also if ctx ends before: then the Result and the error still say what became of
// it. The error is one of Config.Open, a *quarantine.Refusal, a *giterror.Error, or a *work.StalledError.
func (p *Pusher) Push(ctx context.Context, r Request, report Progress) (Result, error) {
	res := Result{Workspace: r.Workspace, Branch: r.Branch, RemoteBranch: r.RemoteBranch}
	err := p.run(ctx, "push", r.Workspace, func(ctx context.Context) error { return p.push(ctx, r, &res, report) })
	if p.config.Pushed != nil {
		p.config.Pushed(ctx, res, err)
	}
	return res, err
}

// run runs f, and waits until it has ended. The context of f ends with ctx, and when the plugin stops.
func (p *Pusher) run(ctx context.Context, what, id string, f func(ctx context.Context) error) (err error) {
	owner := work.Owner{Name: fmt.Sprintf("the %s of workspace %q", what, id), Subject: string(p.config.Subject(id)), Ends: true}
	key := what + "\x00" + origin.NewID() // nobody shares it
	report := func(err error) { p.config.Log.WithContext(ctx).Error(err) }
	returned, ended := false, make(chan struct{})
	_, sharedErr := work.Share(work.WithOwner(ctx, owner), p.config.Work, key, report, func(ctx context.Context) (struct{}, error) {
		defer close(ended)
		err = f(ctx)
		returned = true
		return struct{}{}, nil
	})
	if errors.Is(sharedErr, work.ErrClosed) { // it did not begin
		return sharedErr
	}
	<-ended // Share also returns when ctx ends
	if !returned {
		return sharedErr // a panic
	}
	return err
}

func (p *Pusher) push(ctx context.Context, r Request, res *Result, report Progress) error {
	if r.RemoteBranch != "" {
		if err := quarantine.CheckTarget(r.RemoteBranch, r.Lease); err != nil {
			return err
		}
	}
	src, err := p.open(ctx, r.Workspace, res, report)
	if err != nil {
		return err
	}
	defer src.close()
	branch, err := src.repo.Branch(r.Branch)
	if err != nil {
		return err
	}
	src.repo.Forget()
	to := quarantine.Target{Branch: r.RemoteBranch, Lease: r.Lease}
	if to.Branch == "" {
		to.Branch = branch.Name
	}
	if err := quarantine.CheckTarget(to.Branch, to.Lease); err != nil {
		return err
	}
	res.Branch, res.RemoteBranch, res.New = branch.Name, to.Branch, branch.ID
	if to.Remote, err = p.remote(src.rec, &to); err != nil {
		return err
	}
	report("asking the remote", 0, 0)
	err = src.outside(src.ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		res.Old, err = to.Ask(ctx, p.config.Git)
		return cmp.Or(err, context.Cause(ctx))
	})
	if err != nil {
		return src.cause(err)
	}
	if res.Old == branch.ID {
		return nil
	}
	taken, err := p.config.Quarantine.Take(src.ctx, src.repo, []quarantine.Branch{branch}, report)
	if err != nil {
		return src.cause(err)
	}
	src.closeView() // the workspace may end now
	res.add(taken)
	if err = p.checkLFS(src, taken, r); err == nil {
		taken.Forget()
		to.Moved = src.turn.Moved
		err = src.outside(src.work, func(ctx context.Context) error { return taken.Push(ctx, to, branch, report) })
	}
	if closeErr := taken.Close(); closeErr != nil {
		p.config.Log.WithContext(ctx).WithError(closeErr).Warn("a push could not be removed from the quarantine; the next start tries again")
	}
	return err
}

// checkLFS refuses contents in place of LFS pointers, and new pointers whose objects the plugin has
// not fetched from the remote, because whoever fetches the commits could not check them out.
func (p *Pusher) checkLFS(s *source, taken *quarantine.Taken, r Request) error {
	if r.WithoutLFS {
		return nil
	}
	raw, err := taken.Raw(s.work)
	if err != nil {
		return err
	}
	if len(raw) > 0 {
		return quarantine.RefuseRaw(raw)
	}
	missing, last := 0, lfs.Pointer{}
	err = taken.Pointers(s.work, func(pointer lfs.Pointer) error {
		has, err := lfs.Has(p.config.LFS(s.rec.Clone), pointer)
		if err == nil && !has {
			missing++
			last = pointer
		}
		return err
	})
	if err != nil || missing == 0 {
		return err
	}
	return quarantine.RefusePointers(missing, last)
}

// remote returns the remote of a workspace, which asks for a credential that may push.
func (p *Pusher) remote(rec meta.Workspace, to *quarantine.Target) (git.Remote, error) {
	url, err := volume.ParseURL(rec.Options["repo"], p.config.Schemes)
	if err != nil {
		return git.Remote{}, err
	}
	subject := volume.Subject(rec.Options["subject"])
	return git.Remote{URL: url.WithoutUser().String(), Auth: func(ctx context.Context, url string) (*git.Auth, error) {
		auth, err := p.config.Credential(ctx, url, subject, rec.Options["credential"])
		if auth != nil {
			to.Credential = auth.Name
		}
		return auth, err
	}}, nil
}

// source is an open workspace with the turn of its subject.
type source struct {
	work context.Context // of the push
	ctx  context.Context // also ends when the workspace must not be read any more
	rec  meta.Workspace
	repo *quarantine.Repo

	view   Workspace
	closed bool
	turn   *work.Slot
}

// open waits for the turn of the subject of a workspace, and opens it. It does so only then, because
// an open workspace can't be evicted, restored or reaped. It describes the workspace in res.
func (p *Pusher) open(ctx context.Context, id string, res *Result, report Progress) (s *source, err error) {
	s = &source{work: ctx}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	report("waiting", 0, 0)
	if s.turn, err = p.turns.Acquire(ctx, work.Fetch, false); err != nil {
		return s, err
	}
	work.JobOf(ctx).GivesWay = true
	if s.view, err = p.config.Open(ctx, id); err != nil {
		return s, err
	}
	s.ctx, s.rec = s.view.Context, s.view.Record
	res.Volume, res.Clone, res.Subject, res.Repo = s.rec.Volume, s.rec.Clone, volume.Subject(s.rec.Options["subject"]), s.rec.Options["repo"]
	s.repo, err = quarantine.OpenRepo(s.ctx, s.view.Root, s.view.GitLayer+"/.git")
	return s, err
}

// outside calls f, which waits for the remote, with a context that ends if that stalls and others wait for the turn.
func (s *source) outside(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, end := s.turn.Outside(ctx, stalledPush)
	defer end()
	err := f(ctx)
	if stalled, ok := errors.AsType[*work.StalledError](context.Cause(ctx)); ok && err != nil {
		return stalled
	}
	return err
}

// cause returns why the workspace must not be read any more, if that made err.
func (s *source) cause(err error) error {
	if s.ctx.Err() != nil && s.work.Err() == nil {
		return context.Cause(s.ctx)
	}
	return err
}

// closeView ends the reading of the workspace.
func (s *source) closeView() {
	if s.closed {
		return
	}
	s.closed = true
	if s.repo != nil {
		s.repo.Close()
		s.repo = nil // it has the refs of the git layer
	}
	if s.view.Close != nil {
		s.view.Close()
	}
}

// close ends the reading, and the subject's turn.
func (s *source) close() {
	s.closeView()
	s.turn.Release()
}
