package volume

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseWarm(t *testing.T) {
	many := make([]string, maxWarm)
	for i := range many {
		many[i] = "d" + strconv.Itoa(10+i)
	}
	for text, want := range map[string]Warm{
		"":                               "",
		"node_modules":                   "node_modules",
		"target/,node_modules,web/.venv": "node_modules,target,web/.venv",
		"a,ab":                           "a,ab",
		".github/cache":                  ".github/cache",
		strings.Join(many, ","):          Warm(strings.Join(many, ",")),
		strings.Repeat("x", maxWarmPath): Warm(strings.Repeat("x", maxWarmPath)),
	} {
		got, problem := parseWarm(text)
		if problem != "" || got != want {
			t.Errorf("%q: got %q, %s; want %q", text, got, problem, want)
		}
		if again, problem := parseWarm(string(got)); problem != "" || again != got {
			t.Errorf("%q: read again: %q, %s", got, again, problem)
		}
		if len(want.Paths()) != strings.Count(string(want), ",")+min(1, len(want)) {
			t.Errorf("%q: paths %q", want, want.Paths())
		}
	}
	for text, problem := range map[string]string{
		",":                                    "empty path",
		"a,,b":                                 "empty path",
		"a,":                                   "empty path",
		"/":                                    "empty path",
		"/a":                                   "not below the top",
		".":                                    "not below the top",
		"..":                                   "not below the top",
		"../a":                                 "not below the top",
		"a/../b":                               "not below the top",
		"a//b":                                 "not below the top",
		"./a":                                  "not below the top",
		".git":                                 ".git, which is not part of the work tree",
		"sub/.GIT/x":                           ".GIT, which is not part of the work tree",
		".hdcache/npm":                         ".hdcache, which is not part of the work tree",
		"a,b,a":                                "twice",
		"a,b/c,b":                              "one inside of it",
		"a/b,a":                                "one inside of it",
		"a\nb":                                 "control character",
		"a\xff":                                "control character",
		strings.Join(many, ",") + ",x":         "more than 16 paths",
		strings.Repeat("x", maxWarmPath) + "y": "more than 255 bytes",
	} {
		if got, is := parseWarm(text); got != "" || !strings.Contains(is, problem) {
			t.Errorf("%q: got %q, %s; want %q", text, got, is, problem)
		}
	}
	for text, ok := range map[string]bool{"": true, "ubuntu:24.04 sha256:abc": true, strings.Repeat("k", 256): true, strings.Repeat("k", 257): false, "a\x00": false} {
		if got, problem := parseWarmKey(text); (problem == "") != ok || ok && got != text {
			t.Errorf("warm_key %q: got %q, %s", text, got, problem)
		}
	}
}
