package main

import (
	"context"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

// cold compares the first mount of a subject with all other ways to get the files: from
// nothing, and from a clone on the same disk. Each way writes the same number of files, so
// each round has its own disk.
func cold(c config) group {
	usedByClone := 0.0
	clone := func(name, dir string, against []string, args ...string) row {
		return row{name: name, against: against, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
			before, err := s.disk.Used()
			if err != nil {
				return 0, err
			}
			took, err := clock(func() error {
				_, err := git(ctx, s.disk.Dir, append(append([]string{"clone", "-q"}, args...), s.url(), s.peer(dir))...)
				return err
			})
			if err != nil {
				return 0, err
			}
			// used also syncs, so the next row finds nothing left to write.
			after, err := s.disk.Used()
			usedByClone = loopdisk.MiB(after - before)
			return took, err
		}}
	}
	both, onlyWarm := []string{coldMount, warmMount}, []string{warmMount}
	return group{
		name: "cold", rounds: c.runs, fresh: true, copies: 8,
		rivals: func(ctx context.Context, s *scene) error {
			if _, err := git(ctx, s.disk.Dir, "clone", "-q", "--mirror", s.url(), s.peer("mirror")); err != nil {
				return err
			}
			_, err := s.disk.Used()
			return err
		},
		rows: []row{
			{name: coldMount, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				took, err := s.createAndMount(ctx, "cold", "cold")
				if err == nil {
					_, err = s.disk.Used()
				}
				return took, err
			}},
			clone(shallowFresh, "depth", both, "--depth", "1"),
			clone("git clone --reference", "reference", onlyWarm, "--reference", "mirror"),
			clone(freshClone, "clone", both),
			{name: cloneSpace(crowdSmall), against: []string{spaceRow(crowdSmall)}, unit: mib, sample: func(context.Context, *scene, int) (float64, error) {
				return float64(crowdSmall-1) * usedByClone, nil
			}},
			{name: cloneSpace(c.crowd), against: []string{spaceRow(c.crowd)}, unit: mib, sample: func(context.Context, *scene, int) (float64, error) {
				return float64(c.crowd-1) * usedByClone, nil
			}},
			{name: gitSyncFirst, against: []string{coldMount}, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				took, err := clock(func() error { return s.gitSync(ctx, s.peer("git-sync"), 0) })
				if err == nil {
					_, err = s.disk.Used()
				}
				return took, err
			}},
			{name: "cp -a --reflink=auto of a clone", against: onlyWarm, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return copyTree(ctx, s, "clone", "copy")
			}},
		},
	}
}

// copyTree copies a directory of the disk without git.
func copyTree(ctx context.Context, s *scene, from, to string) (float64, error) {
	if err := s.disk.Sync(); err != nil {
		return 0, err
	}
	took, err := clock(func() error {
		_, err := loopdisk.Tool(ctx, "cp", "-a", "--reflink=auto", s.peer(from), s.peer(to))
		return err
	})
	if err == nil {
		err = s.disk.Sync()
	}
	return took, err
}
