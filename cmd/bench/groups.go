package main

import (
	"context"
	"fmt"
	"time"
)

// Names of rows that others, or a target, compare with.
const (
	coldMount   = "cold Create + Mount"
	warmMount   = "warm Mount"
	lsRemote    = "git ls-remote URL REF"
	updateMount = "Mount, 100 files changed"
	firstStatus = "git status in a fresh workspace"
)

// groups is all that is measured, in order: what deletes much comes last.
func groups(s *scene) []group {
	list := []group{cold(s), warm(s), status(s), changed(s), idle(s)}
	for _, n := range s.dirty {
		list = append(list, reset(s, n))
	}
	return list
}

// cold is the first mount of a subject beside a fresh clone.
func cold(s *scene) group {
	clone := func(name string, args ...string) row {
		return row{name: name, against: coldMount, sample: func(ctx context.Context, i int) (time.Duration, error) {
			if err := s.disk.sync(); err != nil {
				return 0, err
			}
			dir := s.peer(fmt.Sprintf("clone-%d-%d", len(args), i))
			return clock(func() error {
				_, err := git(ctx, s.disk.dir, append(append([]string{"clone", "-q"}, args...), s.url(), dir)...)
				return err
			})
		}}
	}
	return group{n: 3, rows: []row{
		{name: coldMount, sample: func(ctx context.Context, i int) (time.Duration, error) {
			if err := s.disk.sync(); err != nil {
				return 0, err
			}
			name := fmt.Sprintf("cold-%d", i)
			began := time.Now()
			if err := s.create(ctx, name, name); err != nil {
				return 0, err
			}
			l, _, err := s.mount(ctx, name)
			took := time.Since(began)
			if err != nil {
				return 0, err
			}
			_, err = s.unmount(ctx, l)
			return took, err
		}},
		clone("git clone"),
		clone("git clone --depth 1", "--depth", "1"),
	}}
}

// warm is a mount that finds nothing new beside the one question to the remote
// that it can't do without.
func warm(s *scene) group {
	return group{
		n: 21,
		prepare: func(ctx context.Context) error {
			if err := s.create(ctx, "warm", "warm"); err != nil {
				return err
			}
			l, _, err := s.mount(ctx, "warm")
			if err != nil {
				return err
			}
			_, err = s.unmount(ctx, l)
			return err
		},
		rows: []row{
			{name: warmMount, sample: func(ctx context.Context, _ int) (time.Duration, error) {
				if err := s.disk.sync(); err != nil {
					return 0, err
				}
				l, took, err := s.mount(ctx, "warm")
				if err != nil {
					return 0, err
				}
				_, err = s.unmount(ctx, l)
				return took, err
			}},
			{name: lsRemote, against: warmMount, sample: func(ctx context.Context, _ int) (time.Duration, error) {
				return clock(func() error {
					_, err := git(ctx, s.disk.dir, "ls-remote", s.url(), "refs/heads/main")
					return err
				})
			}},
		},
	}
}

// status is the first git status in a workspace beside one in a clone that has
// seen one before: the best that git can do.
func status(s *scene) group {
	plain := s.peer("plain")
	return group{
		n: 7,
		prepare: func(ctx context.Context) error {
			if _, err := git(ctx, s.disk.dir, "clone", "-q", s.url(), plain); err != nil {
				return err
			}
			// In the second of the clone git can't tell that a file is unchanged, and
			// would read all of them each time.
			time.Sleep(time.Second)
			_, err := git(ctx, plain, "status", "--porcelain")
			return err
		},
		rows: []row{
			{name: firstStatus, sample: func(ctx context.Context, _ int) (time.Duration, error) {
				l, _, err := s.mount(ctx, "warm")
				if err != nil {
					return 0, err
				}
				took, err := clock(func() error {
					_, err := git(ctx, l.dir, "status", "--porcelain")
					return err
				})
				if err != nil {
					return 0, err
				}
				_, err = s.unmount(ctx, l)
				return took, err
			}},
			{name: "git status in a plain clone", against: firstStatus, sample: func(ctx context.Context, _ int) (time.Duration, error) {
				return clock(func() error {
					_, err := git(ctx, plain, "status", "--porcelain")
					return err
				})
			}},
		},
	}
}
