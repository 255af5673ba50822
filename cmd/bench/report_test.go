package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample returns a report with three peers: of one row, of two rows, and of a row that was not
// measured.
func sample() *report {
	r := new(report)
	for i, files := range []int{1000, 100000} {
		slow := []float64{1, 100}[i]
		r.put(freshClone, files, ms, []string{coldMount, warmMount}, 30*slow)
		r.put(coldMount, files, ms, nil, 20*slow)
		r.put(warmMount, files, ms, nil, 12)
		r.put(lsRemote, files, ms, []string{warmMount}, 9)
	}
	r.put(dockerEmpty, 100000, ms, []string{dockerWarm}, 200)
	r.Targets = targets(r)
	return r
}

func TestTable(t *testing.T) {
	want := []string{
		"cold Create + Mount|20.0 ms|2.00 s",
		"  git clone|30.0 ms (1.50x)|3.00 s (1.50x)",
		"warm Mount|12.0 ms|12.0 ms",
		"  git clone|30.0 ms (2.50x)|3.00 s (250x)",
		"  git ls-remote URL REF|9.00 ms (0.75x)|9.00 ms (0.75x)",
		"docker run, empty local volume||200 ms",
	}
	var got []string
	for _, l := range sample().lines() {
		name := l.name
		if l.peer {
			name = "  " + name
		}
		got = append(got, name+"|"+strings.Join(l.cells, "|"))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var out strings.Builder
	sample().print(&out)
	for _, text := range []string{"1,000 files", "100,000 files", "  git clone ", " targets met; "} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not in the table:\n%s", text, out.String())
		}
	}
}

func TestPageIsWrittenFromTheResults(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "bench.json")
	if err := sample().write(results); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-report", dir, "-out", results}, &out, &out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, pageName))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"| **warm Mount** | 12.0 ms | git clone | 3.00 s (250x) |\n", "| | 1,000 files | 100,000 files |\n", "| **warm Mount** | 12.0 ms | 12.0 ms |\n",
		"| &nbsp;&nbsp;git clone | 30.0 ms (2.50x) | 3.00 s (250x) |\n",
		"| git clone / warm Mount | 250x (3.00 s / 12.0 ms) | at least 100x | met |\n", "make performance",
	} {
		if !strings.Contains(string(page), text) {
			t.Errorf("%q is not in the page:\n%s", text, page)
		}
	}
}

// A part without results stays as it is on the page.
func TestPageKeepsWhatWasNotMeasured(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "bench.json"), filepath.Join(dir, pageName)
	if err := writePage(path, dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without any results: %v, want %v", err, os.ErrNotExist)
	}
	both := []string{"| **warm Mount** | 12.0 ms | 12.0 ms |\n", "| | git/git (4,847 files) |\n| --- | ---: |\n| **warm Mount** | 9.00 ms |\n"}
	results := new(report)
	results.Rows = []series{{Name: warmMount, Repo: "git/git", Files: 4847, Unit: ms}}
	results.Rows[0].add(9)
	real := filepath.Join(dir, reposResults)
	for _, step := range []struct {
		do   func() error
		want []string
	}{
		{func() error { return sample().write(path) }, both[:1]},
		{func() error { return results.write(real) }, both},
		{func() error { return os.Remove(path) }, both},
		{func() error { return errors.Join(sample().write(path), os.Remove(real)) }, both},
	} {
		if err := errors.Join(step.do(), writePage(path, dir)); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(step.want, "\n## Repeat it\n") {
			if strings.Count(string(page), text) != 1 {
				t.Errorf("not once %q in\n%s", text, page)
			}
		}
	}
}

// TestPageOfTheProjectIsCurrent checks that the text around the figures is that of the program, and that the page has the
// rows and the goals of the program, and no others.
func TestPageOfTheProjectIsCurrent(t *testing.T) {
	data, err := os.ReadFile("../../docs/" + pageName)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	head, rest, _ := strings.Cut(pageText, "{{")
	foot := rest[strings.LastIndex(rest, "}}")+len("}}"):]
	if !strings.HasPrefix(page, head) || !strings.HasSuffix(page, foot) {
		t.Errorf("docs/%s is older than its text: run make performance", pageName)
	}
	var rows, names []string
	for _, g := range groups(defaults()) {
		for _, w := range g.rows {
			rows = append(rows, w.name)
		}
	}
	for _, g := range goals {
		names = append(names, g.name)
	}
	for _, part := range []struct {
		kind, heading string
		want          []string
	}{{"row", "\n## One run\n", rows}, {"goal", "\n## Targets\n", names}} {
		got := firstColumn(page, part.heading)
		for _, name := range part.want {
			if !slices.Contains(got, name) {
				t.Errorf("docs/%s lacks the %s %q: run make bench, then make performance", pageName, part.kind, name)
			}
		}
		for _, name := range got {
			if !slices.Contains(part.want, name) {
				t.Errorf("docs/%s has the %s %q, which the program has not", pageName, part.kind, name)
			}
		}
	}
}

// firstColumn returns the names in the first column of the table below a heading of a page.
func firstColumn(page, heading string) (names []string) {
	_, section, _ := strings.Cut(page, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "\n| --- |")
	_, table, _ = strings.Cut(table, "\n")
	for line := range strings.Lines(table) {
		if cell, ok := strings.CutPrefix(line, "| "); ok {
			name, _, _ := strings.Cut(cell, " |")
			names = append(names, strings.Trim(strings.TrimPrefix(name, "&nbsp;&nbsp;"), "*"))
		}
	}
	return names
}

func TestFirstColumn(t *testing.T) {
	page := "\n" + sample().run() + "\n## Next\n\n| a |\n| --- |\n| b |\n"
	want := []string{coldMount, freshClone, warmMount, freshClone, lsRemote, dockerEmpty}
	if got := firstColumn(page, "\n## One run\n"); !slices.Equal(got, want) {
		t.Errorf("rows: %q, want %q", got, want)
	}
	if got := firstColumn(page, "\n## Targets\n"); len(got) != len(sample().Targets) || got[0] != sample().Targets[0].Name {
		t.Errorf("goals: %q", got)
	}
}
