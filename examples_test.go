package repos_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notRun lists the examples that no test names, with the reason.
var notRun = map[string]string{
	"examples/warm/pnpm.sh": "Debian has no pnpm",
	"examples/warm/uv.sh":   "Debian has no uv",
}

// TestEveryExampleIsRun checks that a test names each file of examples/ by its path, or that notRun has the reason why
// none does, and that a how-to page shows it or links to it.
func TestEveryExampleIsRun(t *testing.T) {
	var tests, pages strings.Builder
	for _, name := range files(t) {
		switch {
		case strings.HasPrefix(name, "tests/") && strings.HasSuffix(name, "_test.go"):
			tests.WriteString(readFile(t, name))
		case strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md"):
			pages.WriteString(readFile(t, name))
		}
	}
	err := filepath.WalkDir("examples", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		named, why := strings.Contains(tests.String(), path), notRun[path]
		if !named && why == "" {
			t.Errorf("no test names %s, and notRun has no reason", path)
		}
		if named && why != "" {
			t.Errorf("a test names %s, and notRun says that none does", path)
		}
		if !strings.Contains(pages.String(), path) {
			t.Errorf("no page of docs/ names %s", path)
		}
		delete(notRun, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range notRun {
		t.Errorf("notRun has %s, which does not exist", path)
	}
}

// quote is a fenced block of a page below a line that says which file it is from.
var quote = regexp.MustCompile("(?m)^<!-- from ([^ \n]+) -->\n```[a-z]*\n((?:.*\n)*?)```$")

// TestQuotesAreExact checks that a block of docs/ that is quoted from a file is that file, or whole lines of it.
func TestQuotesAreExact(t *testing.T) {
	count := 0
	for _, name := range files(t) {
		if !strings.HasPrefix(name, "docs/") || !strings.HasSuffix(name, ".md") {
			continue
		}
		page := readFile(t, name)
		quotes := quote.FindAllStringSubmatch(page, -1)
		if marks := strings.Count(page, "<!-- from "); marks != len(quotes) {
			t.Errorf("%s: %d of %d marks are followed by a block", name, len(quotes), marks)
		}
		for _, q := range quotes {
			count++
			if text := quotable(readFile(t, q[1])); !isQuote(text, q[2]) {
				t.Errorf("%s: this is not in %s:\n%s", name, q[1], q[2])
			}
		}
	}
	if count == 0 {
		t.Error("no page quotes a file")
	}
	for _, bad := range []string{"", "b", "a\nc\n", "b\nc"} { // the check can fail
		if isQuote("a\nb\nc\n", bad) {
			t.Errorf("%q counts as a quote", bad)
		}
	}
}

// quotable returns a file as a page quotes it: without the lines that are for shellcheck.
func quotable(text string) string {
	return regexp.MustCompile(`(?m)^\s*# shellcheck .*\n`).ReplaceAllString(text, "")
}

// isQuote reports whether the quote is some whole lines of a text.
func isQuote(text, quote string) bool {
	return quote != "" && strings.HasSuffix(quote, "\n") && strings.Contains("\n"+text, "\n"+quote)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
