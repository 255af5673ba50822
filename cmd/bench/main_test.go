package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/overlay"
)

// place builds the plugin's program and returns it, with a directory to work in
// whose filesystem holds more than /tmp may. When the test ends, nothing may be
// mounted or left below it.
func place(t *testing.T) (program, dir string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "plugin")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../plugin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, err := os.MkdirTemp("/var/tmp", "helmdeck-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for the uid that fetches
		t.Fatal(err)
	}
	t.Cleanup(func() {
		points, err := overlay.Mounts(dir)
		if err != nil {
			t.Error(err)
		}
		if len(points) > 0 {
			t.Errorf("mounted still: %v", points)
		}
		// Remove and not RemoveAll: it has to be empty.
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return program, dir
}

func TestRunMeasuresEveryRowAndLeavesNothing(t *testing.T) {
	program, dir := place(t)
	out := filepath.Join(t.TempDir(), "sub", "bench.json")
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"-files", "60,130", "-dirty", "0,20", "-program", program, "-out", out, "-dir", dir}, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Date.IsZero() || r.Machine.Cores == 0 || r.Machine.Kernel == "" || r.Machine.Git == "" || r.Machine.Filesystem == "" {
		t.Errorf("incomplete: %v %+v", r.Date, r.Machine)
	}
	for _, files := range []int{60, 130} {
		// Their names alone: nothing is sampled.
		for _, g := range groups(&scene{config: config{dirty: numbers{0, 20}}, disk: &disk{}}) {
			for _, w := range g.rows {
				got := r.row(w.name, files)
				if got == nil || len(got.Samples) != g.n || got.Median <= 0 || got.Against != w.against {
					t.Errorf("%d files, row %q: %+v, want %d samples, against %q", files, w.name, got, g.n, w.against)
				}
				if w.against != "" && r.row(w.against, files) == nil {
					t.Errorf("row %q is compared with %q, which is none", w.name, w.against)
				}
				if !strings.Contains(stdout.String(), "\n"+w.name+"  ") {
					t.Errorf("row %q is not in the table:\n%s", w.name, &stdout)
				}
			}
		}
	}
}

// interrupter ends the context when it reads a text.
type interrupter struct {
	bytes.Buffer
	at     string
	cancel context.CancelFunc
}

func (w *interrupter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.at) {
		w.cancel()
	}
	return n, err
}

func TestInterruptedRunReportsAndLeavesNothing(t *testing.T) {
	program, dir := place(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := filepath.Join(t.TempDir(), "bench.json")
	var stdout bytes.Buffer
	stderr := &interrupter{at: lsRemote, cancel: cancel}
	err := run(ctx, []string{"-files", "60", "-program", program, "-out", out, "-dir", dir}, &stdout, stderr)
	if err == nil || err.Error() != "interrupted" {
		t.Errorf("got %v, want interrupted", err)
	}
	if !strings.Contains(stdout.String(), warmMount) {
		t.Errorf("what was measured is not in the table:\n%s", &stdout)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "helmdeck-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct{ name, program, want string }{
		{"no program", "/nonexistent/plugin", "make build"},
		{"a program that ends", "/bin/false", "does not answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			out := filepath.Join(t.TempDir(), "bench.json")
			err := run(t.Context(), []string{"-files", "60", "-program", test.program, "-out", out, "-dir", dir}, &stdout, &stderr)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestWrongArguments(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-files 10,x", `"x"`},
		{"-dirty -1", `"-1"`},
		{"more", `"more"`},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("bench %s: %v, want %q in it", test.args, err, test.want)
		}
	}
}
