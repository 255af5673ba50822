package main

import (
	"fmt"
	"regexp"
	"strings"
)

// cell is the result of a row on an engine.
type cell struct {
	done, held int
	// unit says what is counted: rounds or tests.
	unit string
	// panics counts the panics of the engine, which was then started again; disabled counts the
	// starts after which the engine left the plugin disabled.
	panics, disabled int
	err              error // of the test program
	// lines are the first lines that explain a failure.
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
	default: // all rounds held, but the program failed, such as because something was left behind
		return fmt.Sprintf("NOT HELD after %d %s", c.done, c.unit)
	}
}

var (
	counted = regexp.MustCompile(`(?m)^ *event_test\.go:\d+: (\d+) rounds of (\d+) held.*the engine panicked: (\d+) times, left the plugin disabled: (\d+) times`)
	verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)
	failure = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: .*$|^panic: .*$|^tests: .*$`)
)

// read makes a cell from the output of a test program. For an event it counts rounds, for other
// rows it counts tests. A skipped test is not held.
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
		for _, line := range failure.FindAllString(out, -1) {
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

// print prints the table and then the cells that failed. It returns an error if a cell failed.
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
		return fmt.Errorf("%d of %d cells are not held; the output of the tests is in %s/<version>.log", bad, len(t.rows)*len(t.engines), dir)
	}
	return nil
}
