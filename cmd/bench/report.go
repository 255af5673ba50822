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

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

// report is the content of bench.json.
type report struct {
	Date    time.Time `json:"date"`
	Machine machine   `json:"machine"`
	Rows    []series  `json:"rows"`
	Targets []target  `json:"targets"`
}

// machine describes the machine on which the numbers depend.
type machine struct {
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	Git        string `json:"git"`
	GitSync    string `json:"git_sync,omitempty"` // its version; empty for the imitation
	Filesystem string `json:"filesystem"`
}

func newReport(ctx context.Context, c config) (*report, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	version, err := git(ctx, "/", "--version")
	if err != nil {
		return nil, err
	}
	sync := ""
	if c.gitSync != "" {
		if sync, err = loopdisk.Tool(ctx, c.gitSync, "--version"); err != nil {
			return nil, err
		}
	}
	return &report{Date: time.Now().UTC(), Machine: machine{
		GitSync: sync, Cores: runtime.NumCPU(), Kernel: unix.ByteSliceToString(name.Release[:]),
		Git: strings.TrimPrefix(strings.TrimSpace(version), "git version "), Filesystem: loopdisk.About,
	}}, nil
}

// read reads a file that write wrote.
func read(path string) (*report, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: run make bench first", err)
	}
	if err != nil {
		return nil, err
	}
	r := new(report)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// row returns the series of a row, or nil if it was not measured.
func (r *report) row(name string, at column) *series {
	for i := range r.Rows {
		if r.Rows[i].Name == name && r.Rows[i].column() == at {
			return &r.Rows[i]
		}
	}
	return nil
}

// print writes the table and the targets.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w, r.head())
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tab, "\nmedian (times ours)")
	for _, at := range r.columns() {
		fmt.Fprintf(tab, "\t%v", at)
	}
	fmt.Fprintln(tab)
	for _, l := range r.lines() {
		name := l.name
		if l.peer {
			name = "  " + name
		}
		fmt.Fprintln(tab, strings.Join(append([]string{name}, l.cells...), "\t"))
	}
	tab.Flush()
	fmt.Fprintln(w)
	for _, t := range r.Targets {
		fmt.Fprintln(w, t)
	}
	if len(r.Targets) > 0 {
		fmt.Fprintln(w, r.verdict())
	}
}

// head returns the date and the machine of the measurement as text.
func (r *report) head() string {
	sync := ""
	if r.Machine.GitSync != "" {
		sync = ", git-sync " + r.Machine.GitSync
	}
	return fmt.Sprintf("%s, %d cores, kernel %s, git %s%s, %s",
		r.Date.Format(time.DateTime), r.Machine.Cores, r.Machine.Kernel, r.Machine.Git, sync, r.Machine.Filesystem)
}

// verdict counts the targets.
func (r *report) verdict() string {
	met := 0
	for _, t := range r.Targets {
		if t.Met {
			met++
		}
	}
	text := fmt.Sprintf("%d of %d targets met", met, len(r.Targets))
	if missing := len(goals) - len(r.Targets); missing > 0 {
		text += fmt.Sprintf("; %d more need rows that were not measured, at %s files", missing, thousands(targetFiles))
	}
	return text
}

// write writes the JSON file.
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
