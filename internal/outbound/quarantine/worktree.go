package quarantine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/helmdeck/repos/internal/git"
)

// MaxWorktrees is how many worktrees of a workspace are looked at, and maxWorktreeNames how many names are where they are.
const MaxWorktrees, maxWorktreeNames = 100, 5000

// Worktree is what a worktree of a workspace (git worktree add) has checked out.
type Worktree struct {
	Name string // of its directory in .git/worktrees; any bytes but zero and a slash
	// Head is a branch, which may have no commit; its name is empty for a detached HEAD.
	Head Branch
}

// Worktrees returns the worktrees whose HEAD is at a commit that no ref of the git layer is at, by name.
// The error is about those that can't be read, and about more than MaxWorktrees: the others are
// returned with it.
func (r *Repo) Worktrees() (list []Worktree, err error) {
	found, err := r.readNames("worktrees", maxWorktreeNames)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if len(found) > MaxWorktrees {
		found, err = found[:MaxWorktrees], refuse(TooLarge, "the workspace has more than %d worktrees: the others are not looked at", MaxWorktrees)
	}
	for _, e := range found {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		head, headErr := r.head("worktrees/" + e.Name() + "/HEAD")
		switch {
		case errors.Is(headErr, fs.ErrNotExist): // git prunes what is no worktree
		case headErr != nil && err == nil:
			err = headErr
		case headErr == nil && head.ID != "" && !r.layer.has(head.ID):
			list = append(list, Worktree{e.Name(), head})
		}
	}
	return list, err
}

// Ahead returns how many commits each of the branches has that neither a ref of the git layer reaches nor, with Follow, one of
// the remote, by the ID of the branch.
func (t *Taken) Ahead(ctx context.Context) (map[string]int64, error) {
	counts := make(map[string]int64)
	for _, b := range t.Branches {
		if _, ok := counts[b.ID]; ok {
			continue
		}
		var n int64
		c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Input: t.wantsOf(b)}, "rev-list", "--stdin")
		if err := t.git.EachRecord(ctx, c, '\n', func(string) error { n++; return nil }); err != nil {
			return nil, fmt.Errorf("count the commits of %s: %w", b.ID, localError(err))
		}
		counts[b.ID] = n
	}
	return counts, nil
}
