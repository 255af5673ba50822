package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// freedWithin is how long the deletion in the background may take.
	freedWithin = 2 * time.Minute
	// freedSlack is what a few mounts leave behind: pages of the database and
	// blocks of directories that have grown.
	freedSlack = 1 << 20
)

// unmountRow, remountRow and freedRow are the names of reset's rows.
func unmountRow(dirty int) string { return fmt.Sprintf("Unmount, %d new files", dirty) }
func remountRow(dirty int) string { return fmt.Sprintf("the next Mount after %d new files", dirty) }

func freedRow(dirty int) string {
	return fmt.Sprintf("until the bytes of %d new files are free", dirty)
}

// reset is a workspace's end with new files in it, unwritten as they are when a
// container has just made them, and what follows: the next mount while they are
// being deleted, and the time until they are. Beside it the update in place has
// to get rid of as many.
func reset(s *scene, dirty int) group {
	var before int64        // bytes used before the files were written
	var unmounted time.Time // when Unmount was called
	var next lease          // of the Mount after it
	return group{n: 7, rows: []row{
		{name: unmountRow(dirty), sample: func(ctx context.Context, _ int) (time.Duration, error) {
			l, _, err := s.mount(ctx, "warm")
			if err != nil {
				return 0, err
			}
			if err := s.disk.sync(); err != nil {
				return 0, err
			}
			if before, err = s.disk.used(); err != nil {
				return 0, err
			}
			if err := litter(ctx, l.dir, dirty); err != nil {
				return 0, err
			}
			unmounted = time.Now()
			return s.unmount(ctx, l)
		}},
		{name: remountRow(dirty), sample: func(ctx context.Context, _ int) (time.Duration, error) {
			l, took, err := s.mount(ctx, "warm")
			next = l
			return took, err
		}},
		{name: freedRow(dirty), sample: func(ctx context.Context, _ int) (time.Duration, error) {
			if err := s.freed(ctx, before, unmounted); err != nil {
				return 0, err
			}
			took := time.Since(unmounted)
			if err := clean(ctx, next.dir); err != nil {
				return 0, err
			}
			_, err := s.unmount(ctx, next)
			return took, err
		}},
		{
			name:    fmt.Sprintf("in place: fetch, reset, clean, %d new files", dirty),
			against: remountRow(dirty),
			sample: func(ctx context.Context, _ int) (time.Duration, error) {
				dir := s.peer("in-place")
				if err := s.disk.sync(); err != nil {
					return 0, err
				}
				if err := litter(ctx, dir, dirty); err != nil {
					return 0, err
				}
				return clock(func() error { return update(ctx, dir) })
			},
		},
	}}
}

// freed waits until no more bytes of the disk are used than before.
func (s *scene) freed(ctx context.Context, before int64, since time.Time) error {
	for {
		used, err := s.disk.used()
		if err != nil || used <= before+freedSlack {
			return err
		}
		if time.Since(since) > freedWithin {
			return fmt.Errorf("%d bytes are used %v after Unmount, %d were before the new files", used, freedWithin, before)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
