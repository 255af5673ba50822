package main

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/gitserver"
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

// update compares the first mount after a push with the update of a working tree in place,
// and with a new worktree. All check out the same commit.
func update(c config) group {
	var pushed string
	peer := func(name, dir string, do func(ctx context.Context, dir string, s *scene) error) row {
		return row{name: name, against: []string{updateMount}, unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
			return clock(func() error { return do(ctx, s.peer(dir), s) })
		})}
	}
	return group{
		name: "update", rounds: c.runs, copies: c.runs + 4,
		rivals: prepareRivals, prepare: warmUp,
		rows: []row{
			{name: updateMount, unit: ms, sample: func(ctx context.Context, s *scene, i int) (_ float64, err error) {
				if pushed, err = s.push(ctx, "main", i); err != nil {
					return 0, err
				}
				if err := s.disk.sync(); err != nil {
					return 0, err
				}
				return s.use(ctx, "warm", func(dir string) error { return checkCommit(ctx, dir, pushed) })
			}},
			peer(inPlacePush, "in-place", func(ctx context.Context, dir string, _ *scene) error { return updateInPlace(ctx, dir) }),
			peer(gitSyncPush, "git-sync", func(ctx context.Context, dir string, s *scene) error {
				return gitSync(ctx, dir, s.url())
			}),
		},
	}
}
