package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// report is what bench.json holds.
type report struct {
	Date    time.Time `json:"date"`
	Machine machine   `json:"machine"`
	Rows    []series  `json:"rows"`
	Targets []target  `json:"targets"`
}

// machine is what the numbers depend on.
type machine struct {
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	Git        string `json:"git"`
	Filesystem string `json:"filesystem"`
}

func newReport(ctx context.Context) (*report, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	version, err := git(ctx, "/", "--version")
	if err != nil {
		return nil, err
	}
	return &report{Date: time.Now().UTC(), Machine: machine{
		Cores: runtime.NumCPU(), Kernel: unix.ByteSliceToString(name.Release[:]),
		Git: strings.TrimPrefix(strings.TrimSpace(version), "git version "), Filesystem: filesystem,
	}}, nil
}

// row finds a series; nil if it was not measured.
func (r *report) row(name string, files int) *series {
	for i := range r.Rows {
		if r.Rows[i].Name == name && r.Rows[i].Files == files {
			return &r.Rows[i]
		}
	}
	return nil
}

// print writes the table and the targets.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, kernel %s, git %s, %s\n",
		r.Date.Format(time.DateTime), r.Machine.Cores, r.Machine.Kernel, r.Machine.Git, r.Machine.Filesystem)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	files := -1
	for _, s := range r.Rows {
		if s.Files != files {
			files = s.Files
			fmt.Fprintf(tab, "\n%d files\tmedian\tmax\tn\tto ours\n", files)
		}
		ratio := ""
		if ours := r.row(s.Against, files); ours != nil {
			ratio = fmt.Sprintf("%.2f x %s", s.Median/ours.Median, ours.Name)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s\n", s.Name, milliseconds(s.Median), milliseconds(s.max()), len(s.Samples), ratio)
	}
	tab.Flush()
	fmt.Fprintln(w)
	for _, t := range r.Targets {
		fmt.Fprintln(w, t)
	}
	if r.row(warmMount, targetFiles) == nil {
		fmt.Fprintf(w, "the targets are for %d files, which were not measured\n", targetFiles)
	}
}

// missed is an error if a target was missed that is more than informative.
func (r *report) missed() error {
	var errs []error
	for _, t := range r.Targets {
		if !t.Pass && !t.Informative {
			errs = append(errs, fmt.Errorf("target missed: %s: %.2f %s, limit %g", t.Name, t.Got, t.Unit, t.Limit))
		}
	}
	return errors.Join(errs...)
}

// write writes the file for machines.
func (r *report) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// milliseconds writes a time as a person reads it.
func milliseconds(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}
