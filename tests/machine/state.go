package main

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// thing is something that a machine has.
type thing struct{ kind, name string }

// state has the things of a machine, with what is to stay the same about each.
type state map[thing]string

// add adds a thing. Equal things, such as mounts at one place, are counted.
func (s state) add(kind, name, value string) {
	for n := 2; ; n++ {
		if _, exists := s[thing{kind, name}]; !exists {
			s[thing{kind, name}] = value
			return
		}
		base, _, _ := strings.Cut(name, " #")
		name = fmt.Sprintf("%s #%d", base, n)
	}
}

// write writes the state to a file, a line for each thing.
func (s state) write(file string) error {
	var text strings.Builder
	for t, value := range s {
		fmt.Fprintf(&text, "%q %q %q\n", t.kind, t.name, value)
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}

// read reads what write wrote.
func read(file string) (state, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := state{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var t thing
		var value string
		if _, err := fmt.Sscanf(lines.Text(), "%q %q %q", &t.kind, &t.name, &value); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, lines.Text(), err)
		}
		s[t] = value
	}
	return s, lines.Err()
}

// compare returns a line for each thing that is left, gone or changed, in order. A directory stands
// for all that is in it. A process or a file outside of the checkout may go at any time.
func compare(before, now state, top string) []string {
	var lines []string
	line := func(what string, t thing, value string) {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", t.kind, what, t.name, value)))
	}
	for _, t := range now.lacking(before) {
		line("left", t, strings.TrimSpace(now[t]+" "+now.origin(t)))
	}
	for _, t := range before.lacking(now) {
		if t.kind == "link" || t.kind == "file" && strings.HasPrefix(t.name, top+"/") {
			line("gone", t, before[t])
		}
	}
	for t, value := range now {
		if old, existed := before[t]; existed && old != value {
			line("changed", t, "from "+old+" to "+value)
		}
	}
	slices.Sort(lines)
	return lines
}

// origin says where a file that is left comes from, if that is known.
func (s state) origin(t thing) string {
	const rapid = "/testdata/rapid"
	if _, in := s[thing{"file", path.Dir(t.name) + rapid}]; t.kind == "file" && (strings.Contains(t.name, rapid) || in && path.Base(t.name) == "testdata") {
		return "(a property test failed, and wrote what makes it fail again: go test -rapid.failfile=FILE)"
	}
	return ""
}

// lacking returns the things that another state lacks, without files in a directory that it lacks.
func (s state) lacking(other state) (list []thing) {
	missing := func(t thing) bool {
		_, here := s[t]
		_, there := other[t]
		return here && !there
	}
	for t := range s {
		if missing(t) && !(t.kind == "file" && missing(thing{t.kind, path.Dir(t.name)})) {
			list = append(list, t)
		}
	}
	return list
}
