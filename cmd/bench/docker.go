package main

import (
	"context"
	"fmt"
)

// docker compares docker run with our volume, with an empty local volume, and with a container
// that clones, until the container has ended and what it leaves has been removed. This is the time
// that a user waits.
func docker(c config) group {
	const often = 3
	use := func(volume string) sampler {
		return synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
			took, _, err := s.container(ctx, volume, "true")
			return took, err
		})
	}
	return group{
		name: "docker", rounds: often * c.runs, copies: c.runs + 5, container: true,
		prepare: func(ctx context.Context, s *scene) error {
			if err := s.volume("warm", "warm"); err != nil {
				return err
			}
			if _, err := s.engine.Try("volume", "create", "empty"); err != nil {
				return err
			}
			// Check once that the files exist, and run each kind once.
			if _, out, err := s.container(ctx, "warm", "cat", "/w/README.md"); err != nil || out == "" {
				return fmt.Errorf("README.md in the container: %q %w", out, err)
			}
			_, _, err := s.container(ctx, "empty", "true")
			return err
		},
		rows: []row{
			{name: dockerWarm, unit: ms, sample: use("warm")},
			{name: dockerEmpty, against: []string{dockerWarm, dockerCold, dockerPush}, unit: ms, sample: use("empty")},
			{name: dockerCold, unit: ms, every: often, sample: synced(func(ctx context.Context, s *scene, i int) (float64, error) {
				took, _, err := s.run(ctx, []string{"--network", "host", s.nameless(fmt.Sprintf("cold-%d", i))}, "true")
				return took, err
			})},
			{name: dockerClone, against: []string{dockerCold}, unit: ms, every: often, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
				took, _, err := s.run(ctx, []string{"--network", "host"}, "git", "clone", "-q", s.url(), "/w")
				return took, err
			})},
			{name: dockerPush, unit: ms, every: often, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
				if _, err := s.push(ctx, "main", i); err != nil {
					return 0, err
				}
				return use("warm")(ctx, s, i)
			}},
		},
	}
}
