package main

import (
	"context"
	"errors"
)

// warm compares a mount that finds nothing new with the one request that it must send to the
// remote, and with peers that find nothing new in a shared working tree.
func warm(c config) group {
	const often = 3 // fast rows are measured this many times as often
	peer := func(name string, do func(ctx context.Context, s *scene) error) row {
		return row{name: name, against: []string{warmMount}, unit: ms, every: often, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
			return clock(func() error { return do(ctx, s) })
		})}
	}
	mount := func(name, volume string) row {
		return row{name: name, unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) { return s.use(ctx, volume, nil) })}
	}
	return group{
		name: "warm", rounds: often * c.runs, copies: 4,
		rivals:  prepareRivals,
		prepare: func(ctx context.Context, s *scene) error { return errors.Join(warmUp(ctx, s), useSmall(ctx, s)) },
		rows: []row{
			mount(warmMount, "warm"), mount(smallMount, smallRepo),
			{name: lsRemote, against: []string{warmMount}, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return clock(func() error {
					_, err := git(ctx, s.disk.Dir, "ls-remote", s.url(), "refs/heads/main")
					return err
				})
			}},
			peer(inPlace, func(ctx context.Context, s *scene) error { return updateInPlace(ctx, s.peer("in-place")) }),
			peer(gitSyncWay+", nothing new", func(ctx context.Context, s *scene) error {
				return s.gitSync(ctx, s.peer("git-sync"), 0)
			}),
		},
	}
}

// useSmall makes and uses the volume smallRepo, of the repository that nobody pushes to.
func useSmall(ctx context.Context, s *scene) error {
	return s.createUsed(ctx, smallRepo, smallRepo, "repo", s.server.URL(smallRepo))
}

// prepareRivals runs the peers for the first time, in the directories "git-sync" and
// "in-place".
func prepareRivals(ctx context.Context, s *scene) error {
	if err := s.gitSync(ctx, s.peer("git-sync"), 0); err != nil {
		return err
	}
	_, err := git(ctx, s.disk.Dir, "clone", "-q", s.url(), s.peer("in-place"))
	return err
}
