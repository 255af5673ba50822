package main

import (
	"fmt"
	"regexp"
	"strings"
)

// cell is what the tests of a row said on an engine.
type cell struct {
	done, held int
	// what is held: rounds or tests.
	unit string
	// panics is how often the engine ended in a panic, and was started again; disabled how often it left the plugin
	// disabled when it started.
	panics, disabled int
	err              error // the program's
	// lines are the first ones that complain.
	lines []string
}

func (c cell) ok() bool { return c.done > 0 && c.held == c.done && c.err == nil }

func (c cell) String() string {
	switch {
	case c.done == 0:
		return "EMPTY"
	case c.ok() && c.panics+c.disabled > 0:
		return fmt.Sprintf("held, %d %s (the engine panicked: %d, left the plugin disabled: %d)", c.done, c.unit, c.panics, c.disabled)
	case c.ok():
		return fmt.Sprintf("held, %d %s", c.done, c.unit)
	case c.held < c.done:
		return fmt.Sprintf("NOT HELD, %d of %d %s", c.done-c.held, c.done, c.unit)
	default: // all rounds held, and then something was left
		return fmt.Sprintf("NOT HELD after %d %s", c.done, c.unit)
	}
}

var (
	counted  = regexp.MustCompile(`(?m)^ *event_test\.go:\d+: (\d+) rounds of (\d+) held.*the engine panicked: (\d+) times, left the plugin disabled: (\d+) times`)
	verdict  = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)
	complain = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: .*$|^panic: .*$|^tests: .*$`)
)

// read makes a cell of what a test's program has printed. Of an event the rounds count, of other tests the tests; one
// that was skipped is not held.
func read(out string, event bool, err error) cell {
	c := cell{err: err, unit: "tests"}
	for _, v := range verdict.FindAllStringSubmatch(out, -1) {
		c.done++
		if v[1] == "PASS" {
			c.held++
		}
	}
	if event {
		c.done, c.held, c.unit = 0, 0, "rounds"
		if n := counted.FindStringSubmatch(out); n != nil {
			fmt.Sscan(n[1], &c.held)
			fmt.Sscan(n[2], &c.done)
			fmt.Sscan(n[3], &c.panics)
			fmt.Sscan(n[4], &c.disabled)
		}
	}
	if !c.ok() {
		for _, line := range complain.FindAllString(out, -1) {
			if len(c.lines) == 6 {
				break
			}
			line = strings.TrimSpace(line)
			c.lines = append(c.lines, line[:min(len(line), 300)])
		}
	}
	return c
}

// table has a cell for each engine and row, by their names.
type table struct {
	engines []string
	rows    []row
	cells   map[[2]string]cell
}

// print prints the table and what deviates, and fails if anything does.
func (t *table) print() error {
	fmt.Printf("\n| scenario | %s |\n|%s\n", strings.Join(t.engines, " | "), strings.Repeat(" --- |", len(t.engines)+1))
	for _, r := range t.rows {
		fmt.Printf("| %s", r.name)
		for _, engine := range t.engines {
			fmt.Printf(" | %s", t.cells[[2]string{engine, r.name}])
		}
		fmt.Println(" |")
	}
	bad := 0
	for _, r := range t.rows {
		for _, engine := range t.engines {
			c := t.cells[[2]string{engine, r.name}]
			if c.ok() {
				continue
			}
			bad++
			fmt.Printf("\n%s, %s: %s\n", engine, r.name, c)
			for _, line := range c.lines {
				fmt.Println("   ", line)
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d cells are not held; %s/<version>.log has all that the tests said", bad, len(t.rows)*len(t.engines), dir)
	}
	return nil
}
