package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// row is one thing that is measured.
type row struct {
	name string
	// against is the row of ours that this one is a peer of; empty for ours.
	against string
	// sample does the thing for the i-th time and returns how long it took,
	// without what has to be done before and checked after it.
	sample func(ctx context.Context, i int) (time.Duration, error)
}

// group is rows that are measured in turns, each n times.
type group struct {
	n       int
	prepare func(ctx context.Context) error // once, before the first sample; may be nil
	rows    []row
}

// series is what a row took.
type series struct {
	Name    string    `json:"name"`
	Against string    `json:"against,omitempty"`
	Files   int       `json:"files"`
	Unit    string    `json:"unit"`
	Samples []float64 `json:"samples"`
	Median  float64   `json:"median"`
}

func (s *series) add(d time.Duration) {
	s.Unit = "ms"
	s.Samples = append(s.Samples, float64(d.Microseconds())/1000)
	s.Median = median(s.Samples)
}

func (s *series) max() float64 { return slices.Max(s.Samples) }

// measure adds the rows' series to the report, also those that an error cut
// short.
func (g group) measure(ctx context.Context, files int, r *report, progress io.Writer) error {
	if g.prepare != nil {
		if err := g.prepare(ctx); err != nil {
			return err
		}
	}
	all := make([]series, len(g.rows))
	defer func() {
		for _, s := range all {
			if len(s.Samples) > 0 {
				r.Rows = append(r.Rows, s)
			}
		}
	}()
	for i := range g.n {
		for j, w := range g.rows {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			took, err := w.sample(ctx, i)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			all[j].Name, all[j].Against, all[j].Files = w.name, w.against, files
			all[j].add(took)
		}
	}
	for _, s := range all {
		fmt.Fprintf(progress, "%7d files  %s: %s\n", files, s.Name, milliseconds(s.Median))
	}
	return nil
}

// clock says how long f took.
func clock(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
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
