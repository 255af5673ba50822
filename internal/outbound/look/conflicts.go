package look

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/changes"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
)

// maxConflicts bounds the paths that are returned, and maxConflictBytes their size.
const maxConflicts, maxConflictBytes = 10_000, 4 << 20

// Conflicts says whether the commits of two workspaces merge.
type Conflicts struct {
	Sides [2]Side
	Clean bool
	// Paths are those in conflict, by path, and More is how many more there are. Some conflicts, as between renames of
	// directories, have none.
	Paths []string
	More  int64
}

// Side is one of two workspaces whose commits are merged.
type Side struct {
	Record meta.Workspace
	Head   quarantine.Branch // its name is empty for a detached HEAD
	// Uncommitted is how many files of the work tree are not as in Head; nil if that is not known, because of
	// UncommittedError. Ignored files do not count.
	Uncommitted      *int64
	UncommittedError string
}

// Conflicts merges the commits of the HEADs of two workspaces of one clone, in the quarantine. The errors are those of
// Status, or a *quarantine.Refusal.
func (i *Inspector) Conflicts(ctx context.Context, a, b string) (c *Conflicts, err error) {
	ctx = i.withJob(ctx, a)
	p, end, err := i.open(ctx, b, a)
	if err != nil {
		return nil, err
	}
	defer end()
	c = new(Conflicts)
	var taken [2]*quarantine.Taken
	defer func() {
		for _, t := range taken {
			if t != nil {
				err = errors.Join(err, t.Close())
			}
		}
	}()
	for n, v := range []*View{p.from, p.View} {
		if c.Sides[n], taken[n], err = i.side(p.Context(), v); err != nil {
			return nil, because(p.View, err)
		}
	}
	p.Close() // the merge is of copies
	err = i.quarantine.WithRoom(ctx, func() (err error) {
		size := 0
		c.Paths, c.More = nil, 0
		c.Clean, err = taken[0].Conflicts(ctx, taken[1], func(path string) error {
			if size += len(path); len(c.Paths) < maxConflicts && size <= maxConflictBytes {
				c.Paths = append(c.Paths, path)
			} else {
				c.More++
			}
			return nil
		})
		return err
	})
	return c, err
}

// side takes the commit of a workspace's HEAD, and compares it with the work tree. ctx ends with both workspaces.
func (i *Inspector) side(ctx context.Context, v *View) (s Side, taken *quarantine.Taken, err error) {
	s.Record = v.Record
	var repo *quarantine.Repo
	err = i.compute(ctx, func() (err error) { // packed-refs may be large
		if repo, err = quarantine.OpenRepo(ctx, v.Merged, filepath.Join(v.GitLayer, ".git")); err != nil {
			return err
		}
		if s.Head, err = repo.Head(); err == nil && s.Head.ID == "" {
			_, err = repo.Branch("HEAD") // the error of a branch without a commit
		}
		repo.Forget()
		return err
	})
	if repo != nil {
		defer repo.Close()
	}
	if err == nil {
		taken, err = i.quarantine.Take(ctx, repo, []quarantine.Branch{s.Head}, func(string, int64, int64) {})
	}
	if err != nil {
		return s, taken, fmt.Errorf("workspace %q: %w", v.Record.ID, err)
	}
	n, err := i.uncommitted(ctx, v, taken)
	if ctx.Err() != nil {
		return s, taken, context.Cause(ctx)
	}
	if s.Uncommitted = &n; err != nil {
		s.Uncommitted, s.UncommittedError = nil, err.Error()
	}
	return s, taken, nil
}

// uncommitted counts the files of a work tree that are not as in the commit that was taken. What is as in the checkout
// is not read: it differs if the commit differs there from that of the checkout.
func (i *Inspector) uncommitted(ctx context.Context, v *View, taken *quarantine.Taken) (n int64, err error) {
	p := &pair{View: v}
	set, err := i.find(p)
	if err != nil {
		return 0, err
	}
	defer set.Close()
	if set.Truncated != "" {
		return 0, errors.New(set.Truncated)
	}
	committed, err := taken.Since(ctx, v.Record.Commit)
	if err != nil {
		return 0, err
	}
	files := &changes.Hasher{Source: p.source(), Format: gitref.Format(taken.Branches[0].ID)}
	err = i.compute(ctx, func() error {
		for c, err := range set.All {
			if err != nil {
				return err
			}
			want, ok := committed[c.Path]
			delete(committed, c.Path)
			switch {
			case c.Module != "", !ok && c.Ignored:
				continue
			case !ok:
				n++
				continue
			}
			mode, id, err := files.Entry(ctx, c.Path)
			if err != nil {
				return err
			}
			if mode != want.Mode || mode != absentMode && id != want.ID {
				n++
			}
		}
		return nil
	})
	for _, want := range committed { // the work tree has what the checkout has
		if want.Mode != moduleMode && v.Record.Options["sparse"] == "" {
			n++
		}
	}
	return n, err
}

// modes of git, for a path without a file and for a submodule.
const absentMode, moduleMode = "000000", "160000"
