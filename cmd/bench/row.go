package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// row is one thing that is measured.
type row struct {
	name string
	// against are the rows of ours that this one is a peer of; none for ours.
	against []string
	unit    unit
	// every has the row measured in each n-th round only; 0 is in each.
	every int
	// sample does the thing for the i-th time and returns what it took, without
	// what has to be done before and checked after it. errEnough ends the row.
	sample func(ctx context.Context, s *scene, i int) (float64, error)
}

// errEnough says that there is nothing more to measure; no error of the run.
var errEnough = errors.New("enough")

// group is rows that are measured on one filesystem.
type group struct {
	name string
	// rounds is how many samples each row has.
	rounds int
	// fresh has every round on a filesystem of its own.
	fresh bool
	// serial measures one row after the other, instead of in turns.
	serial bool
	// once has the group for the largest number of files only.
	once bool
	// needs is what the rows will write: copies of the repository's files, and
	// other files.
	copies, dirt int
	// settings of the plugin, NAME=value.
	settings []string
	// container has an engine with the plugin in it, instead of the program.
	container bool
	// bare has neither program nor engine.
	bare bool
	// rivals prepares what the peers need, and prepare, which runs after it, what
	// ours need, both before the first sample; both may be nil.
	rivals, prepare func(ctx context.Context, s *scene) error
	rows            []row
}

// series is what a row took.
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

// measure adds the rows' series to the report, also those that an error cut
// short.
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

// order is in which order samples are taken.
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

// clock says how many milliseconds f took.
func clock(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return float64(time.Since(began).Microseconds()) / 1000, err
}

// median is the middle, or the mean of the two middle ones; of no values it is 0.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
