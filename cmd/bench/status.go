package main

import (
	"context"
	"time"
)

// status compares the first git status in a workspace with a repeated git status in a clone,
// which is as fast as git can be.
func status(c config) group {
	look := func(ctx context.Context, dir string) (float64, error) {
		return clock(func() error {
			_, err := git(ctx, dir, "status", "--porcelain")
			return err
		})
	}
	return group{
		name: "status", rounds: c.runs, copies: 3,
		rivals: func(ctx context.Context, s *scene) error {
			if _, err := git(ctx, s.disk.Dir, "clone", "-q", s.url(), s.peer("plain")); err != nil {
				return err
			}
			// Within the same second as the clone git cannot know that a file is unchanged, and
			// reads all files each time.
			time.Sleep(time.Second)
			_, err := look(ctx, s.peer("plain"))
			return err
		},
		prepare: warmUp,
		rows: []row{
			{name: firstStatus, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (took float64, err error) {
				_, err = s.use(ctx, "warm", func(dir string) (err error) {
					took, err = look(ctx, dir)
					return err
				})
				return took, err
			}},
			{name: "git status in a plain clone", against: []string{firstStatus}, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return look(ctx, s.peer("plain"))
			}},
		},
	}
}
