package tests

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is a command of a terminal session, and what it prints and returns.
type step struct {
	line    int // in the file, from 1
	command string
	output  []string
	status  int
}

// readSteps returns the commands of the console blocks of a page. docs/tours/README.md describes the notation.
func readSteps(page string) (steps []step, err error) {
	inside, more := false, false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case !inside:
			inside = line == "```console"
			more = false
		case line == "```":
			inside = false
		case more:
			last := &steps[len(steps)-1]
			last.command += "\n" + line
			more = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
			more = strings.HasSuffix(line, `\`)
		case len(steps) == 0:
			return nil, fmt.Errorf("line %d: output before the first command", i+1)
		default:
			last := &steps[len(steps)-1]
			if n, err := fmt.Sscanf(line, "[exit status %d]", &last.status); n == 1 && err == nil {
				continue
			}
			last.output = append(last.output, line)
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("no command")
	}
	return steps, nil
}

// words are what the words with an ellipsis stand for.
type words map[string]string

// ellipsis is a word with an ellipsis, without quotes around it.
var ellipsis = regexp.MustCompile(`[^\s'"]*…[^\s'"]*`)

// fill replaces the words of a command by what they stand for.
func (w words) fill(command string) (string, error) {
	var unknown []string
	filled := ellipsis.ReplaceAllStringFunc(command, func(word string) string {
		if _, ok := w[word]; !ok {
			unknown = append(unknown, word)
		}
		return w[word]
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("no output above has %q", unknown)
	}
	return filled, nil
}

// match compares output with what is expected of it, and keeps what the words of the expected lines stand for.
func (w words) match(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(want[0]) == "…" {
		for i := range len(got) + 1 {
			if w.match(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	if len(got) == 0 {
		return false
	}
	pattern, names := compile(want[0])
	found := pattern.FindStringSubmatch(strings.TrimRight(got[0], " "))
	if found == nil {
		return false
	}
	rest := words{}
	if !rest.match(want[1:], got[1:]) {
		return false
	}
	for i, name := range names {
		w[name] = found[i+1]
	}
	maps.Copy(w, rest) // a later line counts
	return true
}

// compile returns the pattern of an expected line, and the words for which its groups are.
func compile(line string) (*regexp.Regexp, []string) {
	var b strings.Builder
	var names []string
	alone := true
	for i, field := range strings.Fields(line) {
		if was := alone; i > 0 {
			if alone = field == "…"; alone || was {
				b.WriteString(`\s*`)
			} else {
				b.WriteString(`\s+`)
			}
		} else {
			alone = field == "…"
		}
		if alone {
			b.WriteString(`.*?`)
			continue
		}
		rest := field
		for {
			at := ellipsis.FindStringIndex(rest)
			if at == nil {
				break
			}
			word := rest[at[0]:at[1]]
			b.WriteString(regexp.QuoteMeta(rest[:at[0]]))
			b.WriteString("(" + strings.ReplaceAll(regexp.QuoteMeta(word), "…", `\S*`) + ")")
			names = append(names, word)
			rest = rest[at[1]:]
		}
		b.WriteString(regexp.QuoteMeta(rest))
	}
	return regexp.MustCompile(`^\s*` + b.String() + `$`), names
}

// replay runs the commands of a page, in a shell each, and compares what they print and return. names has for
// names on the page, such as that of a host, what they are in the test.
func replay(t *testing.T, file, dir string, env []string, names map[string]string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := readSteps(string(page))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var here, there []string // longest first, so that no name hides a longer one
	for _, shown := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		here = append(here, shown, names[shown])
		there = append(there, names[shown], shown)
	}
	known := words{}
	for _, s := range steps {
		command, err := known.fill(s.command)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, s.line, err)
		}
		cmd := exec.Command("bash", "-c", strings.NewReplacer(here...).Replace(command))
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if _, ended := err.(*exec.ExitError); err != nil && !ended {
			t.Fatal(err)
		}
		printed := strings.TrimSuffix(strings.NewReplacer(there...).Replace(string(out)), "\n")
		var lines []string
		if printed != "" {
			lines = strings.Split(printed, "\n")
		}
		t.Logf("$ %s\n%s\n[exit status %d]", command, printed, cmd.ProcessState.ExitCode())
		if got := cmd.ProcessState.ExitCode(); got != s.status {
			t.Errorf("%s:%d: %s: exit status %d, the page has %d", file, s.line, s.command, got, s.status)
		}
		if !known.match(s.output, lines) {
			t.Errorf("%s:%d: %s printed\n%s\nand the page has\n%s", file, s.line, s.command, printed, strings.Join(s.output, "\n"))
		}
	}
}

// TestTranscript tests the notation of the pages: what matches, and what a page can't hide.
func TestTranscript(t *testing.T) {
	for _, c := range []struct {
		want, got []string
		match     bool
		words     words
	}{
		{nil, nil, true, nil},
		{nil, []string{"more"}, false, nil},
		{[]string{"same"}, []string{"same"}, true, nil},
		{[]string{"same"}, []string{"other"}, false, nil},
		{[]string{"same"}, nil, false, nil},
		{[]string{"A   B"}, []string{"A B  "}, true, nil},
		{[]string{"A B"}, []string{"AB"}, false, nil},
		{[]string{"a … z"}, []string{"a, b and z"}, true, nil},
		{[]string{"a …"}, []string{"a"}, true, nil},
		{[]string{"a …"}, []string{"ab"}, true, nil},
		{[]string{"…", "z"}, []string{"a", "b", "z"}, true, nil},
		{[]string{"a", "…"}, []string{"a"}, true, nil},
		{[]string{"…", "z"}, []string{"a", "b"}, false, nil},
		{[]string{"id=… end"}, []string{"id=12 34 end"}, false, nil},
		{[]string{"… id=… …"}, []string{"at 3 id=12 more"}, true, words{"id=…": "id=12"}},
		{[]string{"x/… …MiB", "x/…"}, []string{"x/a 5MiB", "x/b"}, true, words{"x/…": "x/b", "…MiB": "5MiB"}},
		{[]string{`"id=…"`}, []string{`"id=12"`}, true, words{"id=…": "id=12"}},
	} {
		known := words{}
		if got := known.match(c.want, c.got); got != c.match {
			t.Errorf("%q and %q: %t", c.want, c.got, got)
		} else if c.words != nil && !maps.Equal(known, c.words) {
			t.Errorf("%q: got %v, want %v", c.got, known, c.words)
		}
	}

	known := words{"id=…": "id=12"}
	if got, err := known.fill("grep 'id=…' log"); got != "grep 'id=12' log" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := known.fill("rm no=…"); err == nil {
		t.Errorf("got %q, want an error", got)
	}

	steps, err := readSteps("text\n```console\n$ a \\\n  b\nout\n[exit status 3]\n$ c\n```\n$ no\n```console\n$ d\n```\n")
	want := []step{{3, "a \\\n  b", []string{"out"}, 3}, {7, "c", nil, 0}, {11, "d", nil, 0}}
	if err != nil || !reflect.DeepEqual(steps, want) {
		t.Errorf("got %+v, %v", steps, err)
	}
	for _, page := range []string{"", "```console\n```", "```console\nout\n```"} {
		if _, err := readSteps(page); err == nil {
			t.Errorf("%q: no error", page)
		}
	}
}
