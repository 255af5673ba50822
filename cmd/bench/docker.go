package main

import (
	"context"
	"fmt"
)

// docker compares docker run with our volume and with an empty local volume, until the
// container has ended. This is the time that a user waits.
func docker(c config) group {
	const often = 3
	ours := func(name, volume string, every int, before func(ctx context.Context, s *scene, i int) (string, error)) row {
		return row{name: name, unit: ms, every: every, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
			name := volume
			if before != nil {
				var err error
				if name, err = before(ctx, s, i); err != nil {
					return 0, err
				}
			}
			if err := s.disk.sync(); err != nil {
				return 0, err
			}
			took, _, err := s.container(ctx, name, "true")
			return took, err
		}}
	}
	return group{
		name: "docker", rounds: often * c.runs, copies: c.runs + 4, container: true,
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
			ours(dockerWarm, "warm", 1, nil),
			{name: dockerEmpty, against: []string{dockerWarm, dockerCold, dockerPush}, unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
				took, _, err := s.container(ctx, "empty", "true")
				return took, err
			})},
			ours(dockerCold, "", often, func(_ context.Context, s *scene, i int) (string, error) {
				name := fmt.Sprintf("cold-%d", i)
				return name, s.volume(name, name)
			}),
			ours(dockerPush, "", often, func(ctx context.Context, s *scene, i int) (string, error) {
				_, err := s.push(ctx, "main", i)
				return "warm", err
			}),
		},
	}
}
