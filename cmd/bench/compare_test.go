package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		if _, err := tool(t.Context(), "cp", "-a", filepath.Join("../..", e.Name()), dir); err != nil {
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
	dir := workDir(t)
	program, err := daemon.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	chdirToCopy(t)
	out := filepath.Join(t.TempDir(), "against.json")
	var stdout, stderr bytes.Buffer
	// With so few files a row may be slower by chance on a busy machine. That does not fail this
	// test.
	err = run(t.Context(), small("-against", "HEAD", "-files", "60", "-program", program, "-out", out, "-dir", dir), &stdout, &stderr)
	if err != nil && !strings.Contains(err.Error(), "of its former time") {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var m comparison
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if m.Date.IsZero() || m.Machine.Cores == 0 || len(m.Against) != 40 || m.Turns != 2 || len(m.Notes) > 0 {
		t.Errorf("got %+v", m)
	}
	rows := map[string]contrast{}
	for _, c := range m.Rows {
		rows[c.Name] = c
	}
	for _, g := range groups(config{dirty: numbers{0, 20}, runs: 2, doomed: 300, crowd: 17, modules: 150, planned: 20, commits: 20}) {
		for _, w := range g.rows {
			c, ok := rows[w.name]
			want := len(w.against) == 0 && w.unit == ms && !g.container && g.name != "advance"
			if ok != want {
				t.Errorf("row %q exists: %v, want %v", w.name, ok, want)
			}
			if w.name == besideRow(300) {
				continue // the files may be deleted before the first mount
			}
			if want && (len(c.This) != 2 || len(c.Before) != 2 || len(c.Control) != 2 || c.Ratio <= 0 || c.Noise <= 0 || c.Verdict == "") {
				t.Errorf("row %q: %+v, want two turns of three builds", w.name, c)
			}
			if want && !strings.Contains(stdout.String(), w.name+"  ") {
				t.Errorf("row %q is not in the table:\n%s", w.name, &stdout)
			}
		}
	}
}

func TestGroupWithUnknownSettingIsNotMeasured(t *testing.T) {
	var progress bytes.Buffer
	m := &comparison{progress: &progress, builds: []build{
		{name: "new", settings: []string{"A", "B"}}, {name: "old", settings: []string{"A"}}, {name: "old too", settings: []string{"A"}},
	}}
	g := group{name: "g", settings: []string{"A=1", "B=2"}, rows: []row{{name: "r", unit: ms}}}
	l := &lap{comparison: m, groups: []group{g, g, g}, places: []*place{{files: 7}}, turns: 1}
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(m.Rows) != 1 || m.Rows[0].Verdict != unmeasured || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "old has no setting B") {
		t.Errorf("rows %+v, notes %q", m.Rows, m.Notes)
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
	if err := b.checkSettings([]string{"DISCARD_TTL=0", "NO_SUCH=1"}); err == nil || !strings.Contains(err.Error(), "NO_SUCH") {
		t.Errorf("got %v, want the name of an unknown setting", err)
	}
}

func TestComparisonNamesTheBuildThatFails(t *testing.T) {
	for _, test := range []struct {
		broken int
		fails  bool
	}{{0, true}, {1, false}} {
		dir := workDir(t)
		program, err := daemon.Build(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		c := config{runs: 1, rows: "warm", base: dir, files: numbers{20}}
		m := &comparison{progress: new(bytes.Buffer), builds: []build{{name: "x", program: program}, {name: "y", program: program}, {name: "z", program: program}}}
		m.builds[test.broken].program = "/bin/false"
		err = m.measure(t.Context(), c, 20)
		name := m.builds[test.broken].name + ": start the plugin"
		if test.fails && (err == nil || !strings.Contains(err.Error(), name)) {
			t.Errorf("got %v, want %q in it", err, name)
		}
		if !test.fails && (err != nil || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], name) || m.Rows[0].Verdict != unmeasured) {
			t.Errorf("got %v, notes %q, rows %+v; want %q noted", err, m.Notes, m.Rows, name)
		}
	}
}
