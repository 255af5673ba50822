package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
)

// workDir returns a directory on a filesystem that may have more space than /tmp. At the end
// of the test nothing may be mounted or left below it.
func workDir(t *testing.T) string {
	t.Helper()
	dir := testdir.New(t, "bench")
	t.Cleanup(func() {
		points, err := overlay.Mounts(dir)
		if err != nil {
			t.Error(err)
		}
		if len(points) > 0 {
			t.Errorf("still mounted: %v", points)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return dir
}

// small returns the arguments of a run that takes seconds. It omits the rows with containers,
// because they need an engine.
func small(more ...string) []string {
	return append([]string{
		"-files", "60,130", "-dirty", "0,20", "-copied", "200", "-runs", "2", "-doomed", "300", "-crowd", "17", "-modules", "150", "-clones", "20", "-commits", "20",
		"-plugin", "",
	}, more...)
}

// It takes two minutes, of which the plugin waits one for KEEP_READY.
func TestRunMeasuresEveryRowAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	dir := workDir(t)
	program, err := daemon.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "sub", "bench.json")
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), small("-program", program, "-out", out, "-dir", dir), &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	r, err := read(out)
	if err != nil {
		t.Fatal(err)
	}
	if r.Date.IsZero() || r.Machine.Cores == 0 || r.Machine.Kernel == "" || r.Machine.Git == "" || r.Machine.Filesystem == "" {
		t.Errorf("incomplete: %v %+v", r.Date, r.Machine)
	}
	c := config{dirty: numbers{0, 20}, copied: numbers{200}, runs: 2, doomed: 300, crowd: 17, modules: 150, planned: 20, commits: 20}
	for _, at := range []column{{files: 60}, {files: 130}} {
		for _, g := range groups(c) {
			if g.container || g.once && at.files != 130 {
				continue
			}
			for _, w := range g.rows {
				got := r.row(w.name, at)
				if got == nil && w.name == besideRow(300) {
					continue // the files may be deleted before the first mount
				}
				if got == nil || len(got.Samples) == 0 || len(got.Samples) > g.rounds || got.Unit != w.unit || !slices.Equal(got.Against, w.against) {
					t.Errorf("%v, row %q: %+v, want up to %d samples, against %q", at, w.name, got, g.rounds, w.against)
				}
				if got != nil && w.unit == ms && got.Median <= 0 {
					t.Errorf("%v, row %q: took %v", at, w.name, got.Samples)
				}
				if got != nil && strings.HasSuffix(w.name, questions) && got.Median < 1 {
					t.Errorf("%v, row %q: %v, want at least one", at, w.name, got.Samples)
				}
				if !strings.Contains(stdout.String(), w.name+"  ") {
					t.Errorf("row %q is not in the table:\n%s", w.name, &stdout)
				}
			}
		}
	}
}

func TestRealRepositories(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	dir, repos := workDir(t), t.TempDir()
	program, err := daemon.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec := gitserver.Spec{Files: 30, Commits: pushedCommits + 1, Changes: 1, Branches: []string{"b"}}
	if err := os.Mkdir(filepath.Join(repos, "owner"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bare.git", "owner/bare.git"} {
		if _, err := gitserver.Generate(filepath.Join(repos, name), spec); err != nil {
			t.Fatal(err)
		}
		spec.Files++
	}
	out := filepath.Join(t.TempDir(), reposResults)
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-repos", repos, "-runs", "1", "-program", program, "-out", out, "-dir", dir}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	r, err := read(out)
	if err != nil {
		t.Fatal(err)
	}
	special := 11 // files, in addition to those of the Spec
	for _, at := range []column{{"bare", 30 + special}, {"owner/bare", 31 + special}} {
		for _, g := range groups(config{repos: repos, runs: 1}) {
			for _, w := range g.rows {
				if got := r.row(w.name, at); got == nil || got.Median <= 0 {
					t.Errorf("%v, row %q: %+v", at, w.name, got)
				}
			}
		}
	}
}

func TestPeersAreComparedWithRowsOfOurs(t *testing.T) {
	for _, c := range []config{{dirty: numbers{0, 20}, crowd: 64}, {repos: "/srv/git"}} {
		testPeers(t, groups(c))
	}
}

func testPeers(t *testing.T, all []group) {
	t.Helper()
	ours := map[string]bool{}
	for _, g := range all {
		for _, w := range g.rows {
			ours[w.name] = ours[w.name] || len(w.against) == 0
		}
	}
	for _, g := range all {
		for _, w := range g.rows {
			for _, name := range w.against {
				if !ours[name] {
					t.Errorf("row %q is compared with %q, which is not a row of ours", w.name, name)
				}
			}
		}
	}
}

// interrupter is a writer that cancels the context when a text is written to it.
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
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	dir := workDir(t)
	program, err := daemon.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := filepath.Join(t.TempDir(), "bench.json")
	var stdout bytes.Buffer
	stderr := &interrupter{at: lsRemote, cancel: cancel}
	err = run(ctx, small("-program", program, "-out", out, "-dir", dir), &stdout, stderr)
	if err == nil || err.Error() != "interrupted" {
		t.Errorf("got %v, want interrupted", err)
	}
	if !strings.Contains(stdout.String(), freshClone) {
		t.Errorf("the table does not have the rows that were measured:\n%s", &stdout)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	dir := workDir(t)
	for _, test := range []struct{ name, program, want string }{
		{"no program", "/nonexistent/plugin", "start the plugin"},
		{"a program that ends", "/bin/false", "has ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			out := filepath.Join(t.TempDir(), "bench.json")
			err := run(t.Context(), small("-program", test.program, "-out", out, "-dir", dir), &stdout, &stderr)
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
		{"-rows warm,lukewarm", `"lukewarm"`},
		{"-runs 0", "-runs 0"},
		{"-report docs -against HEAD", "-against"},
		{"-repos /nonexistent", "no bare repository in /nonexistent"},
		{"-repos /nonexistent -rows reset", "cold, warm, update"},
		{"-against nonexistent -rows plan", "nonexistent"},
		{"-report docs -out /nonexistent/bench.json", "make bench"},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("bench %s: %v, want %q in it", test.args, err, test.want)
		}
	}
}
