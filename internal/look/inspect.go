package look

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/changes"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/quarantine"
)

const (
	// maxInspections is how many workspaces are inspected at a time, because each takes memory for
	// the names, and a part of the disk for a patch.
	maxInspections = 8
	// aheadTime limits the count of commits, which is only a part of an answer.
	aheadTime = time.Minute
)

// ErrInspections means that too many workspaces are inspected.
var ErrInspections = fmt.Errorf("%d workspaces are looked at already, and more are not allowed: run it again", maxInspections)

// Inspector says what is in workspaces. It is safe for concurrent use.
type Inspector struct {
	viewer     *Viewer
	changes    *changes.Reader
	quarantine *quarantine.Quarantine
	turns      chan struct{}
}

// NewInspector returns an Inspector.
func NewInspector(v *Viewer, c *changes.Reader, q *quarantine.Quarantine) *Inspector {
	return &Inspector{v, c, q, make(chan struct{}, maxInspections)}
}

// Status is what a workspace changed against the commit that it began with.
type Status struct {
	Record meta.Workspace
	*changes.Set
	// Head is where the container's HEAD is: a branch, which may have no commit, or a commit.
	// HeadError says why that is not known.
	Head      quarantine.Branch
	HeadError string
	// Ahead is how many commits HEAD has that no ref of the remote had when the workspace was
	// made; nil if that is not known, because of AheadError.
	Ahead      *int64
	AheadError string
}

// open opens a workspace, if it has a turn.
func (i *Inspector) open(ctx context.Context, id string) (v *View, end func(), err error) {
	select {
	case i.turns <- struct{}{}:
	default:
		return nil, nil, ErrInspections
	}
	if v, err = i.viewer.Open(ctx, id); err != nil {
		<-i.turns
		return nil, nil, err
	}
	return v, func() {
		v.Close()
		<-i.turns
	}, nil
}

// sourceOf returns what of a view is compared.
func sourceOf(v *View) changes.Source {
	s := changes.Source{Merged: v.Merged, Base: v.Base, Upper: v.Upper}
	for _, p := range v.Record.Warm {
		if p.LeftOut == "" {
			s.Skip = append(s.Skip, p.Path)
		}
	}
	return s
}

// because returns the reason why a view has ended, if it has, and else err.
func because(v *View, err error) error {
	if err != nil && v.Context().Err() != nil {
		return context.Cause(v.Context())
	}
	return err
}

// Status returns what a workspace changed. The errors are those of Open, or of the disk.
func (i *Inspector) Status(ctx context.Context, id string) (s Status, err error) {
	v, end, err := i.open(ctx, id)
	if err != nil {
		return s, err
	}
	defer end()
	s.Record = v.Record
	if s.Set, err = i.changes.Find(v.Context(), sourceOf(v)); err != nil {
		return s, because(v, err)
	}
	repo, err := quarantine.OpenRepo(v.Merged, filepath.Join(v.GitLayer, ".git"))
	if err != nil {
		s.HeadError = err.Error()
		return s, nil
	}
	defer repo.Close()
	if s.Head, err = repo.Head(); err != nil {
		s.HeadError = err.Error()
		return s, nil
	}
	s.Ahead, err = i.ahead(v, repo, s.Head)
	if err = because(v, err); err != nil && v.Context().Err() == nil {
		s.AheadError, err = err.Error(), nil
	}
	return s, err
}

// ahead counts the commits of a branch.
func (i *Inspector) ahead(v *View, repo *quarantine.Repo, head quarantine.Branch) (*int64, error) {
	var n int64
	if head.ID == "" || head.ID == v.Record.Commit {
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

	write func(ctx context.Context, w io.Writer) error
	close func()
	ctx   context.Context
}

// Context ends when the output can't be written any more: see View.Context.
func (o *Output) Context() context.Context { return o.ctx }

// Write writes the output. After an error, a part may have been written.
func (o *Output) Write(w io.Writer) error {
	err := o.write(o.ctx, w)
	if err != nil && o.ctx.Err() != nil {
		return context.Cause(o.ctx)
	}
	return err
}

// Close ends it.
func (o *Output) Close() { o.close() }

// Diff prepares a patch of what a workspace changed, with ignored files if ignored is set.
func (i *Inspector) Diff(ctx context.Context, id string, ignored bool) (*Output, error) {
	v, end, err := i.open(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := i.changes.Diff(v.Context(), sourceOf(v), gitref.Format(v.Record.Commit), ignored)
	if err != nil {
		err = because(v, err)
		end()
		return nil, err
	}
	v.Close() // the patch is of copies
	return &Output{Record: v.Record, ctx: ctx, write: p.Write, close: func() { p.Close(); end() }}, nil
}

// Archive prepares an archive of what a workspace changed, with ignored files if ignored is set.
func (i *Inspector) Archive(ctx context.Context, id string, ignored bool) (*Output, error) {
	v, end, err := i.open(ctx, id)
	if err != nil {
		return nil, err
	}
	set, err := i.changes.Find(v.Context(), sourceOf(v))
	if err != nil {
		err = because(v, err)
		end()
		return nil, err
	}
	owner := changes.Owner{UID: int(v.Record.UID), GID: int(v.Record.GID)}
	return &Output{Record: v.Record, ctx: v.Context(), close: end, write: func(ctx context.Context, w io.Writer) error {
		return set.Tar(ctx, sourceOf(v), owner, ignored, w)
	}}, nil
}
