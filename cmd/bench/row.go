package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// row is one measurement.
type row struct {
	name string
	// against are the rows of ours that this row is a peer of; empty for ours.
	against []string
	unit    unit
	// every is n to measure the row in each n-th round only; 0 means each.
	every int
	// sample takes the i-th sample, without preparation and checks. errEnough ends the
	// row.
	sample func(ctx context.Context, s *scene, i int) (float64, error)
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
	// once measures the group with the largest number of files only.
	once bool
	// copies and dirt are how many copies of the repository, and other files, the rows
	// write.
	copies, dirt int
	// settings of the plugin, NAME=value.
	settings []string
	// container runs the plugin in an engine, instead of the program alone.
	container bool
	// bare runs neither program nor engine.
	bare bool
	// rivals prepares the peers, and then prepare our rows, before the first sample; both
	// may be nil.
	rivals, prepare func(ctx context.Context, s *scene) error
	rows            []row
}

// series has the samples of a row.
type series struct {
	Name    string    `json:"name"`
	Group   string    `json:"group"`
	Against []string  `json:"against,omitempty"`
	Files   int       `json:"files"`
	Unit    unit      `json:"unit"`
	Samples []float64 `json:"samples"`
	Median  float64   `json:"median"`
}

func (s *series) add(v float64) {
	s.Samples = append(s.Samples, v)
	s.Median = median(s.Samples)
}

func (s *series) max() float64 { return slices.Max(s.Samples) }

// measure adds the rows' series to the report, also incomplete ones after an error.
func (g group) measure(ctx context.Context, p *place, r *report, progress io.Writer) (err error) {
	all := make([]series, len(g.rows))
	for j, w := range g.rows {
		all[j] = series{Name: w.name, Group: g.name, Against: w.against, Files: p.files, Unit: w.unit}
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
				fmt.Fprintf(progress, "%7d files  %s: %s\n", p.files, s.Name, s.Unit.format(s.Median))
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

// median returns the median, 0 without values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
