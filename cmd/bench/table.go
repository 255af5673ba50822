package main

import (
	"fmt"
	"slices"
	"strconv"
)

// line is a line of the table: one of our rows, or below it one of its peers.
type line struct {
	name  string
	peer  bool
	cells []string // a median for each column, with the ratio to ours
}

// lines returns the table: our rows in the order of measurement, each followed by its peers. A
// peer of two rows appears twice. Peers whose rows were not measured come last.
func (r *report) lines() (lines []line) {
	add := func(name, against string) {
		l := line{name: name, peer: against != ""}
		for _, at := range r.columns() {
			l.cells = append(l.cells, r.cell(name, against, at))
		}
		lines = append(lines, l)
	}
	var names, ours []string
	for _, s := range r.Rows {
		if slices.Contains(names, s.Name) {
			continue
		}
		names = append(names, s.Name)
		if len(s.Against) == 0 {
			ours = append(ours, s.Name)
		}
	}
	alone := slices.Clone(names)
	for _, name := range ours {
		add(name, "")
		alone = slices.DeleteFunc(alone, func(n string) bool { return n == name })
		for _, peer := range names {
			if i := slices.IndexFunc(r.Rows, func(s series) bool { return s.Name == peer }); slices.Contains(r.Rows[i].Against, name) {
				add(peer, name)
				alone = slices.DeleteFunc(alone, func(n string) bool { return n == peer })
			}
		}
	}
	for _, name := range alone {
		add(name, "")
	}
	return lines
}

func (r *report) cell(name, against string, at column) string {
	s := r.row(name, at)
	if s == nil {
		return ""
	}
	text := s.Unit.format(s.Median)
	if ours := r.row(against, at); ours != nil && ours.Median > 0 {
		text += fmt.Sprintf(" (%s)", times(s.Median/ours.Median))
	}
	return text
}

// times formats a ratio.
func times(ratio float64) string {
	if ratio >= 10 {
		return fmt.Sprintf("%.0fx", ratio)
	}
	return fmt.Sprintf("%.2fx", ratio)
}

// thousands formats a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
