package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
	"github.com/helmdeck/repos/tests/daemon"
)

// chdirToCopy copies the module into a new repository, commits it, and makes it the working
// directory, because a module that was unpacked from an archive has no commits.
func chdirToCopy(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == ".git" || e.Name() == "build" {
			continue
		}
		if _, err := loopdisk.Tool(t.Context(), "cp", "-a", filepath.Join("../..", e.Name()), dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", dir}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"},
	} {
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestComparisonMeasuresOursAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	dir := workDir(t)
	program, err := daemon.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	chdirToCopy(t)
	out := filepath.Join(t.TempDir(), "sub", "against.txt")
	var stderr bytes.Buffer
	// With so few files a row may be slower by chance on a busy machine. That does not fail this
	// test.
	err = run(t.Context(), small("-against", "HEAD", "-files", "60", "-program", program, "-out", out, "-dir", dir), io.Discard, &stderr)
	if err != nil && !strings.Contains(err.Error(), "of its former time") {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	results, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stderr.String(), "NOT MEASURED") {
		t.Error(&stderr)
	}
	for _, g := range groups(config{dirty: numbers{0, 20}, runs: 2, doomed: 300, crowd: 17, modules: 150, planned: 20, commits: 20}) {
		for _, w := range g.rows {
			if w.name == besideRow(300) {
				continue // the files may be deleted before the first mount
			}
			var one strings.Builder
			if err := (contrast{w.name, column{files: 60}, []float64{0}, []float64{0}}).write(&one); err != nil {
				t.Fatal(err)
			}
			start, _, _ := strings.Cut(one.String(), " 1 0 ns/op")
			_, line, _ := strings.Cut(start, "\n")
			want := 0 // two turns of two builds
			if len(w.against) == 0 && w.unit == ms && !g.bare && !g.container && g.name != "advance" {
				want = 4
			}
			if got := strings.Count(string(results), line+" "); got != want {
				t.Errorf("row %q has %d results, want %d", w.name, got, want)
			}
		}
	}
}

func TestGroupWithUnknownSettingIsNotMeasured(t *testing.T) {
	var progress bytes.Buffer
	m := &comparison{progress: &progress, builds: []build{
		{name: "new", settings: []string{"A", "B"}}, {name: "old", settings: []string{"A"}},
	}}
	g := group{name: "g", settings: []string{"A=1", "B=2"}, rows: []row{{name: "r", unit: ms}}}
	l := &lap{comparison: m, groups: []group{g, g}, places: []*place{{column: column{files: 7}}}, turns: 1}
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(m.rows) != 1 || len(m.rows[0].this) > 0 || !strings.Contains(progress.String(), "NOT MEASURED: g, 7 files: old has no setting B") {
		t.Errorf("rows %+v, %s", m.rows, &progress)
	}
}

func TestSettingsOfConfig(t *testing.T) {
	names, err := settings("../../config.json")
	if err != nil {
		t.Fatal(err)
	}
	b := build{name: "b", settings: names}
	for _, g := range groups(config{dirty: numbers{0}}) {
		if err := b.checkSettings(g.settings); err != nil {
			t.Errorf("group %s: %v", g.name, err)
		}
	}
	if err := b.checkSettings([]string{"CHECKPOINT_TTL=0", "NO_SUCH=1"}); err == nil || !strings.Contains(err.Error(), "NO_SUCH") {
		t.Errorf("got %v, want the name of an unknown setting", err)
	}
}

func TestComparisonNamesTheBuildThatFails(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for _, test := range []struct {
		broken int
		fails  bool
	}{{0, true}, {1, false}} {
		dir := workDir(t)
		program, err := daemon.Build(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		c := config{runs: 1, rows: "warm", base: dir, sizes: numbers{20}}
		var progress bytes.Buffer
		m := &comparison{progress: &progress, results: io.Discard, builds: []build{{name: "x", program: program}, {name: "y", program: program}}}
		m.builds[test.broken].program = "/bin/false"
		err = m.measure(t.Context(), c, column{files: 20})
		name := m.builds[test.broken].name + ": start the plugin"
		if test.fails && (err == nil || !strings.Contains(err.Error(), name)) {
			t.Errorf("got %v, want %q in it", err, name)
		}
		if !test.fails && (err != nil || !strings.Contains(progress.String(), "NOT MEASURED") || !strings.Contains(progress.String(), name)) {
			t.Errorf("got %v, %s, rows %+v; want %q", err, &progress, m.rows, name)
		}
	}
}
