package main

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// changes is the number of files in an update.
const changes = 100

// push adds a commit to a branch of the remote that changes files in all parts of the tree, and
// returns its ID. Each round can be pushed only once to a branch.
func (p *place) push(ctx context.Context, branch string, round int) (string, error) {
	out, err := git(ctx, p.root, "--git-dir="+p.server.Path(repo), "ls-tree", "-r", "-z", "--name-only", branch, "src")
	if err != nil {
		return "", err
	}
	var commit []gitserver.Change
	all := nulSeparated(out)
	for i := 0; i < len(all) && len(commit) < changes; i += max(1, len(all)/changes) {
		commit = append(commit, gitserver.Change{Path: all[i], Content: fmt.Sprintf("round %d of %s\n", round, all[i])})
	}
	return gitserver.Commit(p.server.Path(repo), branch, commit...)
}

// update is updates for the generated repository.
func update(c config) group {
	return updates(c, fmt.Sprintf("%d files changed", changes), func(ctx context.Context, s *scene, round int) (string, error) {
		return s.push(ctx, "main", round)
	})
}

// updates compares the first mount after a push with the update of a working tree in place,
// and with a new worktree. All check out the same commit. The rows' names end with what a push
// changes.
func updates(c config, what string, push func(ctx context.Context, s *scene, round int) (string, error)) group {
	ours, pushed := "Mount, "+what, ""
	peer := func(name, dir string, do func(ctx context.Context, dir string, s *scene) error) row {
		return row{name: name, against: []string{ours}, unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
			return clock(func() error { return do(ctx, s.peer(dir), s) })
		})}
	}
	return group{
		name: "update", rounds: c.runs, copies: c.runs + 4,
		rivals: prepareRivals, prepare: warmUp,
		rows: []row{
			{name: ours, unit: ms, sample: func(ctx context.Context, s *scene, i int) (_ float64, err error) {
				if pushed, err = push(ctx, s, i); err != nil {
					return 0, err
				}
				if err := s.disk.Sync(); err != nil {
					return 0, err
				}
				return s.use(ctx, "warm", func(dir string) error { return checkCommit(ctx, dir, pushed) })
			}},
			peer(inPlace+", "+what, "in-place", func(ctx context.Context, dir string, _ *scene) error { return updateInPlace(ctx, dir) }),
			peer(gitSyncWay+", "+what, "git-sync", func(ctx context.Context, dir string, s *scene) error {
				return s.gitSync(ctx, dir, 0)
			}),
		},
	}
}
