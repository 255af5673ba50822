package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/ready"
)

// Names of the rows of inAdvance. Both of ours are compared with nextMount in their targets.
const (
	keptMount      = "Mount with KEEP_READY, 100 files changed"
	refreshedMount = "Mount after POST /v1/refresh, 100 files changed"
	nextMount      = "the next Mount, nothing changed"
	inPlaceNext    = "in place: fetch, reset, clean, 100 files changed, without POST /v1/refresh"
)

// inAdvance measures the first mount after a push if the plugin has fetched and built in advance:
// with the setting KEEP_READY, and after POST /v1/refresh. It is the last group, because it adds
// branches to the repository.
func inAdvance(c config) group {
	kept := func(i int) string { return fmt.Sprintf("kept-%d", i) } // a branch, and the volume with this ref
	keptAt := make([]string, 2*c.runs)                              // the commits that were pushed to them
	use := func(ctx context.Context, s *scene, _ int) error {
		_, err := s.use(ctx, "warm", nil)
		return err
	}
	var pushed string
	ours := []string{keptMount, refreshedMount}
	return group{
		name: "advance", rounds: c.runs, once: true, distant: true, copies: 4,
		settings: []string{"KEEP_READY=1m"}, // the shortest interval
		rivals: func(ctx context.Context, s *scene) error {
			_, err := git(ctx, s.disk.dir, "clone", "-q", "-c", s.far.trust(), s.url(), s.peer("in-place"))
			return err
		},
		prepare: func(ctx context.Context, s *scene) error {
			for i := range keptAt {
				if _, err := git(ctx, s.place.root, "--git-dir="+s.server.Path(repo), "branch", kept(i), "main"); err != nil {
					return err
				}
			}
			if err := warmUp(ctx, s); err != nil {
				return err
			}
			for i := range keptAt {
				if err := s.create(ctx, kept(i), "warm", "ref", kept(i)); err != nil {
					return err
				}
				if _, err := s.use(ctx, kept(i), nil); err != nil {
					return err
				}
			}
			before, err := s.gitLayers()
			if err != nil {
				return err
			}
			for i := range keptAt {
				if keptAt[i], err = s.push(ctx, kept(i), i); err != nil {
					return err
				}
			}
			// One wait is for all samples, because it takes about a minute.
			err = await(ctx, "KEEP_READY", func() (bool, error) {
				now, err := s.gitLayers()
				built := slices.DeleteFunc(now, func(layer string) bool { return slices.Contains(before, layer) })
				return len(built) >= len(keptAt), err
			})
			return errors.Join(err, s.awaitIdle(ctx))
		},
		rows: atDistance(
			twice{name: keptMount, traffic: []string{questions}, before: use, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
				return s.use(ctx, kept(i), func(dir string) error { return checkCommit(ctx, dir, keptAt[i]) })
			}},
			twice{name: refreshedMount, traffic: []string{questions}, before: func(ctx context.Context, s *scene, i int) (err error) {
				if pushed, err = s.push(ctx, "main", i); err != nil {
					return err
				}
				results, err := s.plugin.Admin.Refresh(ctx, ready.Request{Repo: s.url(), Ref: "main"})
				if err == nil && (len(results) != 1 || results[0].Commit != pushed) {
					err = fmt.Errorf("POST /v1/refresh: %+v, want %s", results, pushed)
				}
				return err
			}, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "warm", func(dir string) error { return checkCommit(ctx, dir, pushed) })
			}},
			twice{name: nextMount, against: ours, before: use, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "warm", nil)
			}},
			twice{name: inPlaceNext, against: ours, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return clock(func() error { return updateInPlace(ctx, s.peer("in-place")) })
			}},
		),
	}
}

// gitLayers returns the paths of the git layers of all clones.
func (s *scene) gitLayers() ([]string, error) {
	return filepath.Glob(s.data("clones", "*", "*", "refs", "*"))
}
