package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Names of the rows of keepReady.
const (
	keptMount   = "Mount with KEEP_READY, 100 files changed"
	keptNext    = "the next Mount with KEEP_READY, nothing changed"
	inPlaceKept = "in place: fetch, reset, clean, 100 files changed, one branch"
)

// keepReady measures the first mount after a push if the setting KEEP_READY has let the plugin
// fetch and build in advance. It is the last group, because it adds branches to the repository.
func keepReady(c config) group {
	branch := func(i int) string { return fmt.Sprintf("kept-%d", i) } // also the name of the volume with this ref
	pushed := make([]string, 2*c.runs)                                // the commits that were pushed to them
	use := func(ctx context.Context, s *scene, _ int) error {
		_, err := s.use(ctx, "warm", nil)
		return err
	}
	return group{
		name: "advance", rounds: c.runs, once: true, distant: true, copies: 4,
		settings: []string{"KEEP_READY=1m"}, // the shortest interval
		rivals: func(ctx context.Context, s *scene) error {
			_, err := git(ctx, s.disk.Dir, "clone", "-q", "-c", s.far.trust(), s.url(), s.peer("in-place"))
			return err
		},
		prepare: func(ctx context.Context, s *scene) error {
			if err := warmUp(ctx, s); err != nil {
				return err
			}
			for i := range pushed {
				_, err := git(ctx, s.place.root, "--git-dir="+s.server.Path(repo), "branch", "--force", branch(i), "main")
				if err == nil {
					err = s.create(ctx, branch(i), "warm", "ref", branch(i))
				}
				if err == nil {
					_, err = s.use(ctx, branch(i), nil)
				}
				if err != nil {
					return err
				}
			}
			before, err := s.gitLayers()
			for i := range pushed {
				if err == nil {
					pushed[i], err = s.push(ctx, branch(i), i)
				}
			}
			if err != nil {
				return err
			}
			// One wait is for all samples, because it takes about a minute.
			err = await(ctx, "KEEP_READY", func() (bool, error) {
				now, err := s.gitLayers()
				built := slices.DeleteFunc(now, func(layer string) bool { return slices.Contains(before, layer) })
				return len(built) > len(pushed), err // one for main, too
			})
			return errors.Join(err, s.awaitIdle(ctx))
		},
		rows: atDistance(
			twice{name: keptMount, traffic: []string{questions}, before: use, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
				return s.use(ctx, branch(i), func(dir string) error { return checkCommit(ctx, dir, pushed[i]) })
			}},
			twice{name: keptNext, against: []string{keptMount}, before: use, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "warm", nil)
			}},
			twice{name: inPlaceKept, against: []string{keptMount}, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
				dir := s.peer("in-place")
				took, err := clock(func() error { return updateInPlaceTo(ctx, dir, "FETCH_HEAD", branch(i)) })
				return took, errors.Join(err, checkCommit(ctx, dir, pushed[i]))
			}},
		),
	}
}

// gitLayers returns the paths of the git layers of all clones.
func (s *scene) gitLayers() ([]string, error) {
	return filepath.Glob(s.data("clones", "*", "*", "refs", "*"))
}
