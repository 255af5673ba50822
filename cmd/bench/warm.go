package main

import "context"

// warm is a mount that finds nothing new beside the one question to the remote
// that it can't do without, and beside what finds nothing new in one working tree
// that all share.
func warm(c config) group {
	const often = 3 // what takes milliseconds is measured this many times as often
	peer := func(name string, do func(ctx context.Context, s *scene) error) row {
		return row{name: name, against: []string{warmMount}, unit: ms, every: often, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
			if err := s.disk.sync(); err != nil {
				return 0, err
			}
			return clock(func() error { return do(ctx, s) })
		}}
	}
	return group{
		name: "warm", rounds: often * c.runs, copies: 4,
		rivals: prepareRivals, prepare: warmUp,
		rows: []row{
			{name: warmMount, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				if err := s.disk.sync(); err != nil {
					return 0, err
				}
				return s.use(ctx, "warm", nil)
			}},
			{name: lsRemote, against: []string{warmMount}, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return clock(func() error {
					_, err := git(ctx, s.disk.dir, "ls-remote", s.url(), "refs/heads/main")
					return err
				})
			}},
			peer(inPlace, func(ctx context.Context, s *scene) error { return reuse(ctx, s.peer("in-place")) }),
			peer("git-sync's way, nothing new", func(ctx context.Context, s *scene) error {
				return gitSync(ctx, s.peer("git-sync"), s.url())
			}),
		},
	}
}

// prepareRivals has the peers' first time behind them: the directories "git-sync"
// and "in-place".
func prepareRivals(ctx context.Context, s *scene) error {
	if err := gitSync(ctx, s.peer("git-sync"), s.url()); err != nil {
		return err
	}
	_, err := git(ctx, s.disk.dir, "clone", "-q", s.url(), s.peer("in-place"))
	return err
}
