package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string // empty: it concerns the package
	Elapsed float64
	Output  string

	ImportPath  string // of a build
	FailedBuild string
}

// test is a test of a package with all of its tries, or a package.
type test struct {
	name    string // package and test, or the package alone
	inside  bool   // a subtest failed, which says more
	seconds float64
	tries   []string           // pass, fail or skip
	output  []*strings.Builder // of each try; the last may have begun
}

// sub reports whether t is a subtest.
func (t *test) sub() bool {
	_, name, _ := strings.Cut(t.name, " ")
	return strings.Contains(name, "/")
}

func (t *test) failed() bool { return slices.Contains(t.tries, "fail") }

// last returns how the last try ended. A try that began and did not end has failed.
func (t *test) last() string {
	if len(t.tries) < len(t.output) || len(t.tries) == 0 {
		return "fail"
	}
	return t.tries[len(t.tries)-1]
}

// results are the tests of all parts.
type results struct {
	tests   []*test  // without packages
	outside []string // what failed outside of tests
}

func (r *results) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.read(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// read reads the events of one part. A package has a begin and an end for each time that it ran.
func (r *results) read(events io.Reader) error {
	tests := make(map[string]*test)
	failed := make(map[string]bool) // packages in which a test failed since they began
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		} else if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("an event %.100q: %w", line, err)
		}
		if e.Action == "build-fail" {
			r.outside = append(r.outside, "build of "+e.ImportPath)
			continue
		}
		if e.Package == "" {
			continue
		}
		name := strings.TrimSpace(e.Package + " " + e.Test)
		t := tests[name]
		if t == nil {
			t = &test{name: name}
			tests[name] = t
			if e.Test != "" {
				r.tests = append(r.tests, t)
			}
		}
		switch e.Action {
		case "start":
			failed[e.Package] = false
			t.output = append(t.output, new(strings.Builder))
		case "run":
			t.output = append(t.output, new(strings.Builder))
		case "output":
			if len(t.output) == 0 {
				t.output = append(t.output, new(strings.Builder))
			}
			t.output[len(t.output)-1].WriteString(e.Output)
			// The exit status is printed unless it is 1, which is that of a failed test.
			if e.Test == "" && strings.HasPrefix(e.Output, "exit status ") {
				r.outside = append(r.outside, fmt.Sprintf("%s: %s", e.Package, strings.TrimSpace(e.Output)))
			}
		case "pass", "fail", "skip":
			t.tries = append(t.tries, e.Action)
			t.seconds = max(t.seconds, e.Elapsed)
			if e.Action != "fail" {
				break
			}
			if e.Test != "" {
				failed[e.Package] = true
				if parent := parentOf(name, tests); parent != nil {
					parent.inside = true
				}
			} else if !failed[e.Package] && e.FailedBuild == "" {
				r.outside = append(r.outside, fmt.Sprintf("%s: it failed outside of a test\n%s", e.Package, indent(t.output[len(t.output)-1].String())))
			}
		}
	}
	return nil
}

// parentOf returns the test in which a subtest ran, whose own name may have slashes; nil for a top test.
func parentOf(name string, tests map[string]*test) *test {
	test := strings.IndexByte(name, ' ') // after the package
	for at := strings.LastIndexByte(name, '/'); at > test; at = strings.LastIndexByte(name[:at], '/') {
		if t := tests[name[:at]]; t != nil {
			return t
		}
	}
	return nil
}

// slowest returns the n top tests that took longest.
func (r *results) slowest(n int) []*test {
	list := slices.DeleteFunc(slices.Clone(r.tests), (*test).sub)
	slices.SortStableFunc(list, func(a, b *test) int { return cmp.Compare(b.seconds, a.seconds) })
	return list[:min(n, len(list))]
}

// flaky returns the tests that failed and passed at their last try, with the output of the first failure.
func (r *results) flaky() string {
	var text strings.Builder
	for _, t := range r.tests {
		if !t.inside && t.failed() && t.last() == "pass" {
			fmt.Fprintf(&text, "%s\n%s", t.name, indent(t.output[slices.Index(t.tries, "fail")].String()))
		}
	}
	return text.String()
}

// failures returns a line or more for each failure.
func (r *results) failures() []string {
	list := slices.Clone(r.outside)
	first := 0
	for _, t := range r.tests {
		if t.inside {
			continue
		}
		if t.failed() {
			first++
		}
		if t.last() == "fail" {
			list = append(list, t.name)
		}
	}
	if first > mostFailures {
		list = append(list, fmt.Sprintf("%d tests failed at their first try, want at most %d", first, mostFailures))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// count counts top tests by the end of their last try.
func (r *results) count() (passed, skipped, failed int) {
	for _, t := range r.tests {
		switch {
		case t.sub():
		case t.last() == "pass":
			passed++
		case t.last() == "skip":
			skipped++
		default:
			failed++
		}
	}
	return passed, skipped, failed
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}
