package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
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
		"| | 1,000 files | 100,000 files |\n", "| **warm Mount** | 12.0 ms | 12.0 ms |\n",
		"| &nbsp;&nbsp;git clone | 30.0 ms (2.50x) | 3.00 s (250x) |\n", "](" + plotName + ")",
		"| git clone / warm Mount | 250x (3.00 s / 12.0 ms) | at least 100x | met |\n", "make performance",
	} {
		if !strings.Contains(string(page), text) {
			t.Errorf("%q is not in the page:\n%s", text, page)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, plotName)); err != nil {
		t.Error(err)
	}
}

func TestPlot(t *testing.T) {
	for name, r := range map[string]*report{"two sizes": sample(), "nothing": new(report)} {
		picture := r.plot()
		for d := xml.NewDecoder(strings.NewReader(picture)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, picture)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(picture, bad) {
				t.Errorf("%s: %q is in the picture:\n%s", name, bad, picture)
			}
		}
	}
	picture := sample().plot()
	for _, text := range []string{">100,000<", ">1 s<", "ours: warm Mount, 12.0 ms<", "git clone, 3.00 s<"} {
		if !strings.Contains(picture, text) {
			t.Errorf("%q is not in the picture:\n%s", text, picture)
		}
	}
}

// TestPageOfTheProjectIsCurrent checks that the text around the figures is that of the program.
func TestPageOfTheProjectIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/" + pageName)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(pageHead, "![")
	if !strings.HasPrefix(string(page), head) || !strings.HasSuffix(string(page), pageFoot) {
		t.Errorf("docs/%s is older than its text: run make performance", pageName)
	}
	if _, err := os.Stat("../../docs/" + plotName); err != nil {
		t.Error(err)
	}
}
