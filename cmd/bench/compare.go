package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// comparison measures rows in turns on two builds.
type comparison struct {
	builds   []build // this one, and the other
	rows     []contrast
	results  io.Writer // for benchstat
	progress io.Writer
}

// compareBuilds measures the rows in turns on this build and on the build of another commit. It
// returns an error if a row is slower than before.
func compareBuilds(ctx context.Context, c config, progress io.Writer) (err error) {
	commit, err := resolve(ctx, c.against)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.base, "helmdeck-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // the uid that fetches must enter it
		return err
	}
	m := &comparison{progress: progress}
	fmt.Fprintf(progress, "compiling %s\n", commit)
	if m.builds, err = builds(ctx, c, commit, dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.out), 0o755); err != nil {
		return err
	}
	results, err := os.Create(c.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, results.Close()) }()
	m.results = results
	columns, err := c.columns()
	if err != nil {
		return err
	}
	for _, at := range columns {
		if err = m.measure(ctx, c, at); err != nil {
			err = fmt.Errorf("%v: %w", at, err)
			break
		}
	}
	if ctx.Err() != nil {
		left, _ := errors.AsType[leftError](err)
		err = errors.Join(errors.New("interrupted"), left.error)
	}
	for _, row := range m.rows {
		if row.isSlower() {
			err = errors.Join(err, fmt.Errorf("%s, %v: %s of its former time, at most %s", row.name, row.column, times(row.ratio()), times(slower)))
		}
	}
	return err
}

// measure compares all groups of a column. Each build has its own
// repository and server, because a push must reach only one build.
func (m *comparison) measure(ctx context.Context, c config, at column) (err error) {
	var places []*place
	defer func() {
		for _, p := range places {
			err = errors.Join(err, p.close())
		}
	}()
	var all [][]group // for each build, because groups have state
	for _, b := range m.builds {
		own := c
		own.program, own.plugin = b.program, b.plugin
		p, err := openPlace(ctx, own, at)
		if err != nil {
			return err
		}
		places, all = append(places, p), append(all, own.chosen(at))
	}
	for i := range all[0] {
		l := &lap{comparison: m, places: places, turns: c.runs}
		for k := range m.builds {
			l.groups = append(l.groups, all[k][i].ours())
		}
		if len(l.groups[0].rows) == 0 {
			continue
		}
		if err := l.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", l.groups[0].name, err)
		}
	}
	return nil
}

// ours returns the group without peers, and without rows that are not times. It omits rows that
// would take minutes, too: the cold docker run, which is the row of cold with an engine around
// it, and the rows with KEEP_READY, which are warm mounts after a wait of a minute. A group without
// the program has no rows, because it measures code of this process (go test -bench . ./janitor).
func (g group) ours() group {
	rows, omitted := g.rows, []string{dockerCold, farRow(keptMount), nearRow(keptMount)}
	g.rows, g.rivals = nil, nil
	for _, w := range rows {
		if len(w.against) == 0 && w.unit == ms && !g.bare && !slices.Contains(omitted, w.name) {
			g.rows = append(g.rows, w)
		}
	}
	// Only the peers need more copies.
	g.copies = min(g.copies, 4)
	return g
}
