package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// comparison is the content of bench-against.json.
type comparison struct {
	Date    time.Time  `json:"date"`
	Machine machine    `json:"machine"`
	Against string     `json:"against"` // the commit's ID
	Turns   int        `json:"turns"`
	Rows    []contrast `json:"rows"`
	Notes   []string   `json:"notes,omitempty"` // why a group was not measured

	builds   []build
	progress io.Writer
}

// compareBuilds measures the rows in turns on this build, on the build of another commit, and
// on a copy of that build as control. It returns an error if a row is slower than before.
func compareBuilds(ctx context.Context, c config, stdout, progress io.Writer) (err error) {
	commit, err := resolve(ctx, c.against)
	if err != nil {
		return err
	}
	r, err := newReport(ctx)
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
	m := &comparison{Date: r.Date, Machine: r.Machine, Against: commit, Turns: c.runs, progress: progress}
	fmt.Fprintf(progress, "compiling %s\n", commit)
	if m.builds, err = builds(ctx, c, commit, dir); err != nil {
		return err
	}
	for _, files := range c.files {
		if err = m.measure(ctx, c, files); err != nil {
			err = fmt.Errorf("%d files: %w", files, err)
			break
		}
	}
	if ctx.Err() != nil {
		left, _ := errors.AsType[leftError](err)
		err = errors.Join(errors.New("interrupted"), left.error)
	}
	m.print(stdout)
	for _, row := range m.Rows {
		if row.Verdict == failed {
			err = errors.Join(err, fmt.Errorf("%s, %d files: %s of its former time, at most %s", row.Name, row.Files, times(row.Ratio), times(slower)))
		}
	}
	return errors.Join(err, m.write(c.out))
}

// measure compares all groups with this number of files. Each build has its own
// repository and server, because a push must reach only one build.
func (m *comparison) measure(ctx context.Context, c config, files int) (err error) {
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
		p, err := openPlace(own, files)
		if err != nil {
			return err
		}
		places, all = append(places, p), append(all, own.chosen(files))
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
// it, and the rows with KEEP_READY, which are warm mounts after a wait of a minute.
func (g group) ours() group {
	rows, omitted := g.rows, []string{dockerCold, farRow(keptMount), nearRow(keptMount)}
	g.rows, g.rivals = nil, nil
	for _, w := range rows {
		if len(w.against) == 0 && w.unit == ms && !slices.Contains(omitted, w.name) {
			g.rows = append(g.rows, w)
		}
	}
	// Only the peers need more copies.
	g.copies = min(g.copies, 4)
	return g
}

// print writes the table.
func (m *comparison) print(w io.Writer) {
	fmt.Fprintf(w, "%s\nagainst %s, %d turns\n\n", (&report{Date: m.Date, Machine: m.Machine}).head(), m.Against, m.Turns)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "median\tfiles\tbefore\tnow\tnow/before\tcontrol/before\tslower in\t")
	for _, c := range m.Rows {
		fmt.Fprintln(tab, strings.Join(c.cells(), "\t"))
	}
	tab.Flush()
	fmt.Fprintln(w)
	for _, note := range m.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w, summary(m.Rows))
}

// write writes the JSON file.
func (m *comparison) write(path string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
