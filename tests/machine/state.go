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
// for all that is in it. It leaves out names that match one of the patterns, or are below one that
// does.
func compare(before, now state, ignore []string) ([]string, error) {
	for _, pattern := range ignore {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("-ignore %q: %w", pattern, err)
		}
	}
	var lines []string
	line := func(what string, t thing, value string) {
		if !ignored(t.name, ignore) {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", t.kind, what, t.name, value)))
		}
	}
	for _, t := range now.lacking(before) {
		if now[t] != unrelated {
			line("left", t, strings.TrimSpace(now[t]+" "+now.origin(t)))
		}
	}
	for _, t := range before.lacking(now) {
		if t.kind != "process" && !temporary(t) {
			line("gone", t, before[t])
		}
	}
	for t, value := range now {
		if old, existed := before[t]; existed && old != value && t.kind != "process" {
			line("changed", t, "from "+old+" to "+value)
		}
	}
	slices.Sort(lines)
	return lines, nil
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
		return here && !there && !shared(t)
	}
	for t := range s {
		if missing(t) && !(t.kind == "file" && missing(thing{t.kind, path.Dir(t.name)})) {
			list = append(list, t)
		}
	}
	return list
}

// ignored reports whether a name, or the name of a directory that it is in, matches a pattern.
func ignored(name string, patterns []string) bool {
	for {
		for _, pattern := range patterns {
			if match, _ := path.Match(pattern, name); match {
				return true
			}
		}
		up := path.Dir(name)
		if up == name || up == "." {
			return false
		}
		name = up
	}
}

// shared reports whether a thing is a directory, or a control group, that all engines of a machine, or mount(8),
// make if it is missing, and that may go when it is empty. What is in it counts.
func shared(t thing) bool {
	switch t.kind {
	case "file":
		return slices.Contains([]string{"/run/containerd", "/run/containerd/s", "/run/docker", "/run/docker/plugins", "/run/mount", "/run/xtables.lock"}, t.name)
	case "control group":
		return slices.Contains([]string{"docker", "k8s.io"}, path.Base(t.name))
	}
	return false
}

// temporary reports whether a thing is a file that may go at any time. The machine's engine removes the network
// namespaces of ended containers a minute later.
func temporary(t thing) bool {
	return t.kind == "file" && slices.ContainsFunc([]string{"/tmp/", "/var/tmp/", "/run/docker/netns/", os.TempDir() + "/"}, func(dir string) bool {
		return strings.HasPrefix(t.name, dir)
	})
}
