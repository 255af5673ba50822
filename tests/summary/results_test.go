package main

import (
	"slices"
	"strings"
	"testing"
)

// events makes events of lines "ACTION TEST OUTPUT"; the test "-" stands for the package.
func events(lines ...string) string {
	var text strings.Builder
	for _, line := range lines {
		fields := strings.SplitN(line, " ", 3)
		text.WriteString(`{"Action":"` + fields[0] + `","Package":"p","Elapsed":2`)
		if fields[1] != "-" {
			text.WriteString(`,"Test":"` + fields[1] + `"`)
		}
		if len(fields) == 3 {
			text.WriteString(`,"Output":"` + fields[2] + `\n"`)
		}
		text.WriteString("}\n")
	}
	return text.String()
}

func TestResults(t *testing.T) {
	var many []string
	for _, name := range []string{"A", "B", "C", "D", "E", "F"} {
		many = append(many, "run "+name, "fail "+name)
	}
	again := []string{"start -"}
	for _, name := range []string{"A", "B", "C", "D", "E", "F"} {
		again = append(again, "run "+name, "pass "+name)
	}
	for _, tt := range []struct {
		name                    string
		events                  []string
		flaky, failures         []string // parts of the lines
		passed, skipped, failed int
	}{
		{name: "passed", events: []string{"start -", "run A", "pass A", "run B", "skip B", "pass -"}, passed: 1, skipped: 1},
		{name: "failed", events: []string{"start -", "run A", "fail A", "fail -", "run A", "fail A", "fail -"}, failures: []string{"p A"}, failed: 1},
		{name: "flaky", events: []string{"start -", "run A", "output A because", "fail A", "fail -", "start -", "run A", "pass A", "pass -"},
			flaky: []string{"p A", "because"}, passed: 1},
		{name: "flaky subtest", events: []string{"start -", "run A", "run A/b", "output A/b because", "fail A/b", "fail A", "fail -",
			"start -", "run A", "run A/b", "pass A/b", "pass A", "pass -"}, flaky: []string{"p A/b", "because"}, passed: 1},
		{name: "a slash in the name of a subtest", events: []string{"start -", "run A", "run A/b/c", "fail A/b/c", "fail A", "fail -",
			"start -", "run A", "run A/b/c", "pass A/b/c", "pass A", "pass -"}, flaky: []string{"p A/b/c"}, passed: 1},
		{name: "never ended", events: []string{"start -", "run A", "output A panic", "fail -"}, failures: []string{"p A"}, failed: 1},
		{name: "outside", events: []string{"start -", "run A", "pass A", "output - left", "fail -", "start -", "pass -"},
			failures: []string{"outside of a test", "left"}, passed: 1},
		{name: "outside, after a test failed", events: []string{"start -", "run A", "fail A", "output - exit status 2", "fail -", "start -", "run A", "pass A", "pass -"},
			flaky: []string{"p A"}, failures: []string{"p: exit status 2"}, passed: 1},
		{name: "too many", events: slices.Concat([]string{"start -"}, many, []string{"fail -"}, again, []string{"pass -"}),
			flaky: []string{"p A", "p F"}, failures: []string{"6 tests failed at their first try"}, passed: 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r results
			if err := r.read(strings.NewReader(events(tt.events...))); err != nil {
				t.Fatal(err)
			}
			for _, part := range []struct {
				name, got string
				want      []string
			}{{"flaky", r.flaky(), tt.flaky}, {"failures", strings.Join(r.failures(), "\n"), tt.failures}} {
				if len(part.want) == 0 && part.got != "" {
					t.Errorf("%s: %q, want nothing", part.name, part.got)
				}
				for _, want := range part.want {
					if !strings.Contains(part.got, want) {
						t.Errorf("%s: %q, want %q in it", part.name, part.got, want)
					}
				}
			}
			if passed, skipped, failed := r.count(); passed != tt.passed || skipped != tt.skipped || failed != tt.failed {
				t.Errorf("%d passed, %d skipped, %d failed, want %d, %d, %d", passed, skipped, failed, tt.passed, tt.skipped, tt.failed)
			}
		})
	}
	if err := new(results).read(strings.NewReader("FAIL\n")); err == nil {
		t.Error("a line that is no event is no error")
	}
}
