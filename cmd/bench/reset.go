package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// unmountRow, remountRow and dirtyRow return the names of reset's rows.
func unmountRow(dirty int) string { return fmt.Sprintf("Unmount, %d dirty files", dirty) }
func remountRow(dirty int) string { return fmt.Sprintf("the next Mount after %d dirty files", dirty) }

func dirtyRow(dirty int) string {
	return fmt.Sprintf("in place: fetch, reset, clean, %d dirty files", dirty)
}

// dirtBytes is the size of a dirty file.
const dirtBytes = 1 << 10

// reset measures the unmount of a workspace with new, unsynced files, and the next mount
// directly after it, which together are the reset. Its peer, the update in place, has to
// remove the same number of files. The workspace's files stay as a checkpoint, which is counted
// in the background meanwhile.
func reset(c config, dirty int) group {
	addFiles := func(ctx context.Context, dir string) error {
		return writeFiles(ctx, filepath.Join(dir, "out"), dirty, dirtBytes)
	}
	return group{
		name: "reset", rounds: c.runs, copies: 3, dirt: (c.runs + 2) * (dirty + dirty/50),
		rivals: func(ctx context.Context, s *scene) error {
			_, err := git(ctx, s.disk.Dir, "clone", "-q", s.url(), s.peer("in-place"))
			return err
		},
		prepare: warmUp,
		rows: []row{
			{name: unmountRow(dirty), unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
				l, _, err := s.mount(ctx, "warm")
				if err != nil {
					return 0, err
				}
				if err := addFiles(ctx, l.dir); err != nil {
					_, unmountErr := s.unmount(ctx, l)
					return 0, errors.Join(err, unmountErr)
				}
				return s.unmount(ctx, l)
			})},
			{name: remountRow(dirty), unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "warm", func(dir string) error { return checkClean(ctx, dir) })
			}},
			{name: dirtyRow(dirty), against: []string{remountRow(dirty)}, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				dir := s.peer("in-place")
				if err := s.disk.Sync(); err != nil {
					return 0, err
				}
				if err := addFiles(ctx, dir); err != nil {
					return 0, err
				}
				return clock(func() error { return updateInPlace(ctx, dir) })
			}},
		},
	}
}
