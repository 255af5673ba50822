package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// pageName is the name of the page.
const pageName = "performance.md"

//go:embed page.md
var pageText string

// The sections of the page that come from results, by their first and the next heading.
const (
	runHeading  = "## In short\n"
	realHeading = "## Real repositories\n"
	restHeading = "## Repeat it\n"
)

// writePage writes the page into dir: one run from a file of results, and real repositories from
// reposResults beside it. A section whose results do not exist stays as it is on the page there.
func writePage(results, dir string) error {
	path := filepath.Join(dir, pageName)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	sections, missing := map[string]string{}, 0
	for _, s := range []struct {
		name, results, from, to string
		write                   func(*report) string
	}{
		{"Run", results, runHeading, realHeading, (*report).run},
		{"Real", filepath.Join(filepath.Dir(results), reposResults), realHeading, restHeading, (*report).real},
	} {
		r, err := read(s.results)
		switch {
		case err == nil:
			sections[s.name] = s.write(r)
		case errors.Is(err, os.ErrNotExist):
			if missing++; missing == 2 {
				return err
			}
			kept := "\n"
			if _, rest, found := strings.Cut(string(old), s.from); found {
				kept, _, _ = strings.Cut(rest, s.to)
			}
			sections[s.name] = s.from + kept
		default:
			return err
		}
	}
	page, err := template.New(pageName).Parse(pageText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := page.Execute(&b, sections); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// run returns the section about generated repositories.
func (r *report) run() string {
	return runHeading + "\n" + r.head() + ".\n\n" + r.highlighted() + "## One run\n\n" +
		"The table has medians, and in parentheses their ratio to our row, in bold above. Rows that are compared were measured in turns, on one new filesystem.\n\n" +
		r.table() + "\n## Targets\n\n" + r.checked() + "\n"
}

// real returns the section about real repositories.
func (r *report) real() string {
	return realHeading + "\n" + r.head() + ".\n\n" + r.table() + "\n"
}

// table returns all rows in Markdown: medians, and their ratio to ours.
func (r *report) table() string {
	var b strings.Builder
	columns := r.columns()
	b.WriteString("| |")
	for _, at := range columns {
		fmt.Fprintf(&b, " %v |", at)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(columns)) + "\n")
	for _, l := range r.lines() {
		name := "**" + l.name + "**"
		if l.peer {
			name = "&nbsp;&nbsp;" + l.name
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(l.cells, " | "))
	}
	return b.String()
}

// checked returns the targets in Markdown.
func (r *report) checked() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The targets are for %s files. %s.\n\n| target | measured | limit | |\n| --- | ---: | ---: | --- |\n", thousands(targetFiles), r.verdict())
	for _, t := range r.Targets {
		got, limit := t.figures()
		fmt.Fprintf(&b, "| %s | %s (%s) | %s | %s |\n", t.Name, got, t.Note, limit, t.verdict())
	}
	return b.String()
}
