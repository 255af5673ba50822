package repos_test

import (
	"regexp"
	"strings"
	"testing"
)

// measured matches a time that was measured.
var measured = regexp.MustCompile(`\b\d[\d.,]* ?m?s\b`)

// TestComparisonNamesRows checks that docs/comparison.md names rows that docs/performance.md has, and has no time of its own,
// which no command would keep current.
func TestComparisonNamesRows(t *testing.T) {
	page, performance := readFile(t, "docs/comparison.md"), readFile(t, "docs/performance.md")
	if got := measured.FindAllString(page, -1); len(got) > 0 {
		t.Errorf("it has the times %q: name the row of docs/performance.md", got)
	}
	if got := measured.FindAllString("took 0.08 and 4.2 s, or 7 ms, of 100,000 files", -1); len(got) != 2 {
		t.Errorf("of a text with two times, %q are found", got)
	}
	_, table, _ := strings.Cut(page, "| another way |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for line := range strings.Lines(table) {
		_, columns, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ") // the first column has other names
		for _, m := range span.FindAllStringSubmatch(columns, -1) {
			rows++
			if !strings.Contains(performance, "| **"+m[1]+"** |") && !strings.Contains(performance, "| &nbsp;&nbsp;"+m[1]+" |") {
				t.Errorf("docs/performance.md has no row %q", m[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("the table has %d rows of docs/performance.md", rows)
	}
}
