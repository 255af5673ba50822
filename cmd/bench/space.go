package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

// crowdSmall is the smaller number of workspaces whose disk space is measured. config.crowd is
// the larger one.
const crowdSmall = 16

func spaceRow(n int) string   { return fmt.Sprintf("disk of %d idle workspaces on top of one", n) }
func cloneSpace(n int) string { return fmt.Sprintf("disk of %d git clones on top of one, from one", n) }

// space measures the disk space of many idle workspaces of one volume, without that of the
// first one. The disk space of clones is measured in cold.
func space(c config) group {
	var leases []lease
	var one int64
	grow := func(ctx context.Context, s *scene, n int) error {
		for len(leases) < n {
			l, _, err := s.mount(ctx, "warm")
			if err != nil {
				return err
			}
			leases = append(leases, l)
		}
		return nil
	}
	sample := func(ctx context.Context, s *scene, n int) (float64, error) {
		if err := grow(ctx, s, n); err != nil {
			return 0, err
		}
		used, err := s.disk.Used()
		return loopdisk.MiB(used - one), err
	}
	return group{
		name: "space", rounds: c.runs, copies: 2,
		prepare: warmUp,
		rows: []row{
			{name: spaceRow(crowdSmall), unit: mib, sample: func(ctx context.Context, s *scene, _ int) (_ float64, err error) {
				if err := errors.Join(s.settle(ctx), grow(ctx, s, 1)); err != nil {
					return 0, err
				}
				if one, err = s.disk.Used(); err != nil {
					return 0, err
				}
				return sample(ctx, s, crowdSmall)
			}},
			{name: spaceRow(c.crowd), unit: mib, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				more, err := sample(ctx, s, c.crowd)
				err = errors.Join(err, s.unmountAll(ctx, leases))
				leases = nil
				return more, err
			}},
		},
	}
}
