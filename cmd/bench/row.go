package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

// row is one measurement.
type row struct {
	name string
	// against has our rows with which this row is compared; empty if the row is ours.
	against []string
	unit    unit
	// every is n if the row is measured only in each n-th round; 0 means each round.
	every int
	// sample takes the i-th sample. The value does not include preparation and checks.
	// errEnough ends the row.
	sample sampler
}

type sampler = func(ctx context.Context, s *scene, i int) (float64, error)

// synced returns a sampler that syncs the disk first.
func synced(take sampler) sampler {
	return func(ctx context.Context, s *scene, i int) (float64, error) {
		if err := s.disk.Sync(); err != nil {
			return 0, err
		}
		return take(ctx, s, i)
	}
}

// errEnough ends a row that has nothing more to measure; it does not fail the run.
var errEnough = errors.New("enough")

// group is a list of rows measured on one filesystem.
type group struct {
	name string
	// rounds is the number of samples of each row.
	rounds int
	// fresh gives every round its own filesystem.
	fresh bool
	// serial measures one row after the other, instead of in turns.
	serial bool
	// once measures the group only with the largest number of files.
	once bool
	// copies is the number of copies of the repository that the rows write, and dirt the
	// number of other files.
	copies, dirt int
	// settings are the plugin's settings (NAME=value).
	settings []string
	// container runs the plugin in an engine, not only its program.
	container bool
	// distant gives the scene a server behind a link that adds distance.
	distant bool
	// filesystem is that of the group; empty for Ext4.
	filesystem loopdisk.Type
	// repo is the repository at the server; empty for the sample.
	repo string
	// bare runs neither the program nor an engine.
	bare bool
	// rivals prepares the peers and prepare then prepares our rows, before the first sample.
	// Both may be nil.
	rivals, prepare func(ctx context.Context, s *scene) error
	rows            []row
}

// series has the samples of a row.
type series struct {
	Name    string    `json:"name"`
	Group   string    `json:"group"`
	Against []string  `json:"against,omitempty"`
	Repo    string    `json:"repo,omitempty"`
	Files   int       `json:"files"`
	Unit    unit      `json:"unit"`
	Samples []float64 `json:"samples"`
	Median  float64   `json:"median"`
}

func (s *series) add(v float64) {
	s.Samples = append(s.Samples, v)
	s.Median = median(s.Samples)
}

func (s *series) column() column { return column{s.Repo, s.Files} }

func (s *series) max() float64 { return slices.Max(s.Samples) }

// measure adds the rows' series to the report. After an error it adds the incomplete series.
func (g group) measure(ctx context.Context, p *place, r *report, progress io.Writer) (err error) {
	all := make([]series, len(g.rows))
	for j, w := range g.rows {
		all[j] = series{Name: w.name, Group: g.name, Against: w.against, Repo: p.repo, Files: p.files, Unit: w.unit}
	}
	var s *scene
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = s.explain(err)
		}
		err = errors.Join(err, s.close())
		for _, s := range all {
			if len(s.Samples) > 0 {
				r.Rows = append(r.Rows, s)
				fmt.Fprintf(progress, "%13v  %s: %s\n", p.column, s.Name, s.Unit.format(s.Median))
			}
		}
	}()
	ended := make([]bool, len(g.rows))
	for _, at := range g.order() {
		if g.fresh && at.row == 0 {
			if err := s.close(); err != nil {
				return err
			}
			s = nil
		}
		if s == nil {
			if s, err = openScene(ctx, p, g, nil); err != nil {
				return err
			}
			for _, prepare := range []func(context.Context, *scene) error{g.rivals, g.prepare} {
				if prepare == nil {
					continue
				}
				if err := prepare(ctx, s); err != nil {
					return fmt.Errorf("prepare: %w", err)
				}
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ended[at.row] {
			continue
		}
		took, err := g.rows[at.row].sample(ctx, s, at.round)
		if errors.Is(err, errEnough) {
			ended[at.row] = true
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.rows[at.row].name, err)
		}
		all[at.row].add(took)
	}
	return nil
}

// step is one sample of one row.
type step struct{ round, row int }

// order returns the order of the samples.
func (g group) order() (steps []step) {
	for i := range g.rounds {
		for j, w := range g.rows {
			if w.every == 0 || i%w.every == 0 {
				steps = append(steps, step{i, j})
			}
		}
	}
	if g.serial {
		slices.SortStableFunc(steps, func(a, b step) int { return a.row - b.row })
	}
	return steps
}

// clock returns how many milliseconds f took.
func clock(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return float64(time.Since(began).Microseconds()) / 1000, err
}

// median returns the median, or 0 if there are no values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
