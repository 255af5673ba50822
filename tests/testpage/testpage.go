// Package testpage compares the generated parts of pages of documentation with the code. The flag -update of a test
// that imports it writes them instead; "make reference" does so for all.
package testpage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of docs/reference")

// Check compares the part of the file at path that lies between the lines <!-- NAME --> and <!-- end --> with want.
func Check(t *testing.T, path, name, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`(?s)<!-- ` + regexp.QuoteMeta(name) + ` -->\n(.*?)<!-- end -->\n`).FindSubmatchIndex(data)
	if place == nil {
		t.Fatalf("%s has no place for %s", path, name)
	}
	page := append(append(bytes.Clone(data[:place[2]]), want...), data[place[3]:]...)
	switch {
	case bytes.Equal(page, data):
	case *update:
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: run make reference", path)
	}
}

// Table returns a table in Markdown.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, cell := range cells {
			escaped[i] = strings.ReplaceAll(strings.ReplaceAll(cell, "|", `\|`), "\n", " ")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(escaped, " | "))
	}
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// Code returns text as code, or "none" if it is empty.
func Code(text string) string {
	if text == "" {
		return "none"
	}
	return "`" + text + "`"
}
