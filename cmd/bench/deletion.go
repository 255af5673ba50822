package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

func beforeRow(n int) string { return fmt.Sprintf("warm Mount beside %d files", n) }
func besideRow(n int) string { return fmt.Sprintf("warm Mount while %d files are deleted", n) }

// deletion compares a warm mount while the plugin deletes another workspace's files with
// one before that.
func deletion(c config) group {
	const often = 3
	var full lease
	mount := func(ctx context.Context, s *scene) (float64, error) { return s.use(ctx, "warm", nil) }
	var empty int64 // inodes in use before the files were made
	fill := func(ctx context.Context, s *scene) (err error) {
		// Wait for deletions of an earlier turn.
		if err := s.settle(ctx); err != nil {
			return err
		}
		if full, _, err = s.mount(ctx, "warm"); err != nil {
			return err
		}
		if empty, err = s.disk.Inodes(); err != nil {
			return err
		}
		return errors.Join(writeFiles(ctx, filepath.Join(full.dir, "out"), c.doomed, 0), s.disk.Sync())
	}
	// left returns how many of the files still exist.
	left := func(s *scene) (int64, error) {
		inodes, err := s.disk.Inodes()
		return inodes - empty, err
	}
	return group{
		name: "deletion", rounds: often * c.runs, serial: true, once: true, copies: 2, dirt: c.doomed + c.doomed/50,
		// By default the plugin would keep the files for a day, as a checkpoint.
		settings: []string{"CHECKPOINT_TTL=0"},
		prepare:  warmUp,
		rows: []row{
			{name: beforeRow(c.doomed), unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				if full.dir == "" {
					if err := fill(ctx, s); err != nil {
						return 0, err
					}
				}
				return mount(ctx, s)
			}},
			{name: besideRow(c.doomed), unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				if full.dir != "" {
					if _, err := s.unmount(ctx, full); err != nil {
						return 0, err
					}
					full = lease{}
					if err := await(ctx, "the deletion's beginning", func() (bool, error) {
						n, err := left(s)
						return n < int64(c.doomed), err
					}); err != nil {
						return 0, err
					}
				}
				took, err := mount(ctx, s)
				if err != nil {
					return 0, err
				}
				// A mount at the end of the deletion does not count.
				if n, err := left(s); err != nil || n < int64(c.doomed/100) {
					return 0, errors.Join(err, errEnough)
				}
				return took, nil
			}},
		},
	}
}
