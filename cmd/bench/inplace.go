package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/gitserver"
)

// changes is how many files an update changes.
const changes = 100

// changed is the first mount after a push beside the update of a working tree in
// place. Both get the same commit.
func changed(s *scene) group {
	dir := s.peer("in-place")
	var paths []string
	return group{
		n: 3,
		prepare: func(ctx context.Context) error {
			if _, err := git(ctx, s.disk.dir, "clone", "-q", s.url(), dir); err != nil {
				return err
			}
			out, err := git(ctx, dir, "ls-files", "src")
			if err != nil {
				return err
			}
			all := strings.Fields(out)
			step := max(1, len(all)/changes)
			for i := 0; i < len(all) && len(paths) < changes; i += step {
				paths = append(paths, all[i])
			}
			return nil
		},
		rows: []row{
			{name: updateMount, sample: func(ctx context.Context, i int) (time.Duration, error) {
				var commit []gitserver.Change
				for _, p := range paths {
					commit = append(commit, gitserver.Change{Path: p, Content: fmt.Sprintf("round %d of %s\n", i, p)})
				}
				id, err := gitserver.Commit(s.server.Path(repo), "main", commit...)
				if err != nil {
					return 0, err
				}
				if err := s.disk.sync(); err != nil {
					return 0, err
				}
				l, took, err := s.mount(ctx, "warm")
				if err != nil {
					return 0, err
				}
				if err := at(ctx, l.dir, id); err != nil {
					return 0, err
				}
				_, err = s.unmount(ctx, l)
				return took, err
			}},
			{name: "in place: fetch, reset, clean, 100 files changed", against: updateMount, sample: func(ctx context.Context, _ int) (time.Duration, error) {
				if err := s.disk.sync(); err != nil {
					return 0, err
				}
				return clock(func() error { return update(ctx, dir) })
			}},
		},
	}
}

// idle is the update in place that finds nothing to do.
func idle(s *scene) group {
	return group{n: 5, rows: []row{
		{name: "in place: fetch, reset, clean", against: warmMount, sample: func(ctx context.Context, _ int) (time.Duration, error) {
			if err := s.disk.sync(); err != nil {
				return 0, err
			}
			return clock(func() error { return update(ctx, s.peer("in-place")) })
		}},
	}}
}

// at fails when the checkout in dir is of another commit.
func at(ctx context.Context, dir, id string) error {
	out, err := git(ctx, dir, "rev-parse", "HEAD")
	if err == nil && strings.TrimSpace(out) != id {
		err = fmt.Errorf("%s is at %s, the remote at %s", dir, strings.TrimSpace(out), id)
	}
	return err
}
