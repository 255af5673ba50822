package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

const (
	sweepRow     = "a sweep that finds nothing"
	sweepReadRow = sweepRow + ": directories that it reads"
	// quiet is how long no directory must be read to conclude that the plugin has measured
	// and counted everything.
	quiet = time.Second
)

// sweep measures a sweep of the janitor over clones, a leased workspace and checkpoints, with
// nothing to evict.
func sweep(c config) group {
	var w loopdisk.Watch = -1
	return group{
		name: "sweep", rounds: c.runs, once: true, copies: 3, dirt: 10000,
		prepare: func(ctx context.Context, s *scene) error {
			for _, subject := range []string{"warm", "other"} {
				if err := s.create(ctx, subject, subject); err != nil {
					return err
				}
				if _, err := s.use(ctx, subject, func(dir string) error {
					return writeFiles(ctx, filepath.Join(dir, "out"), 1000, dirtBytes)
				}); err != nil {
					return err
				}
			}
			l, _, err := s.mount(ctx, "warm")
			if err != nil {
				return err
			}
			if err := writeFiles(ctx, filepath.Join(l.dir, "out"), 1000, dirtBytes); err != nil {
				return err
			}
			if w, err = loopdisk.NewWatch(s.disk.Dir); err != nil {
				return err
			}
			s.onClose(w.Close)
			// Check that the watch counts.
			if _, err := os.ReadDir(s.data("clones")); err != nil {
				return err
			}
			if n, err := w.Read(); err != nil || n == 0 {
				return fmt.Errorf("a directory was read, but the watch counted %d: %w", n, err)
			}
			since := time.Now()
			return await(ctx, "the end of measuring", func() (bool, error) {
				n, err := w.Read()
				if n > 0 {
					since = time.Now()
				}
				return time.Since(since) > quiet, err
			})
		},
		rows: []row{
			{name: sweepRow, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				if _, err := w.Read(); err != nil {
					return 0, err
				}
				return clock(func() error {
					report, err := s.plugin.Admin.Sweep(ctx)
					if err == nil && len(report.Evicted) > 0 {
						err = errors.New("the sweep has evicted something, want nothing")
					}
					return err
				})
			}},
			{name: sweepReadRow, unit: count, sample: func(context.Context, *scene, int) (float64, error) {
				n, err := w.Read()
				return float64(n), err
			}},
		},
	}
}
