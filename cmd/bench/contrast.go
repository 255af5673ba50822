package main

import "fmt"

const (
	// slower is the limit on a row's ratio of its time to its former time.
	slower = 1.1
	// judged is the time, in milliseconds, above which a row is judged. A tenth of a shorter
	// time is less than the noise of a busy machine's scheduler.
	judged = 2
)

// contrast is a row that was measured in turns on three builds: this one, the one before, and
// a copy of the latter as control. The values of a turn have the same index. Turns in which a
// build has no value, or 0, are omitted.
type contrast struct {
	Name    string    `json:"name"`
	Group   string    `json:"group"`
	Files   int       `json:"files"`
	Unit    unit      `json:"unit"`
	This    []float64 `json:"this"`
	Before  []float64 `json:"before"`
	Control []float64 `json:"control"`
	// Ratio is this build's time over that of the one before. Noise is the control's time
	// over that of the one before, ideally 1.
	Ratio   float64 `json:"ratio"`
	Noise   float64 `json:"noise"`
	Slower  int     `json:"slower_turns"` // turns in which this build was slower
	Verdict verdict `json:"verdict"`
}

// verdict is the result of a contrast.
type verdict string

const (
	held       verdict = "ok"
	failed     verdict = "SLOWER"
	noisy      verdict = "NOISY"
	unjudged   verdict = "under 2 ms"
	unmeasured verdict = "NOT MEASURED"
)

// judge computes the ratios and the verdict.
//
// The ratios are medians of the turns' ratios, not ratios of medians: the values of a turn are
// measured within seconds, so that a machine that is slower for some turns changes both sides
// of each ratio.
//
// A row fails if its ratio exceeds the limit. If two copies of one build differ by more than
// the limit, in either direction, the measurement cannot resolve a tenth. Then the row fails
// only if its ratio exceeds the limit times the copies' difference; otherwise it is noisy,
// neither held nor failed. A row is judged if either build takes long enough, so that a row
// that was fast and becomes slow is not ignored.
func (c *contrast) judge() {
	var ratios, noises []float64
	c.Slower = 0
	for i := range c.This {
		ratios, noises = append(ratios, c.This[i]/c.Before[i]), append(noises, c.Control[i]/c.Before[i])
		if c.This[i] > c.Before[i] {
			c.Slower++
		}
	}
	c.Ratio, c.Noise = median(ratios), median(noises)
	off := max(c.Noise, 1/c.Noise)
	switch {
	case len(c.This) == 0:
		c.Verdict = unmeasured
	case max(median(c.This), median(c.Before)) <= judged:
		c.Verdict = unjudged
	case c.Ratio > slower && off <= slower, c.Ratio > slower*off:
		c.Verdict = failed
	case off > slower:
		c.Verdict = noisy
	default:
		c.Verdict = held
	}
}

// cells returns the contrast as a line of the table.
func (c *contrast) cells() []string {
	if c.Verdict == unmeasured {
		return []string{c.Name, thousands(c.Files), "", "", "", "", "", string(c.Verdict)}
	}
	return []string{
		c.Name, thousands(c.Files), c.Unit.format(median(c.Before)), c.Unit.format(median(c.This)), times(c.Ratio), times(c.Noise),
		fmt.Sprintf("%d of %d", c.Slower, len(c.This)), string(c.Verdict),
	}
}

// turn returns the order in which the builds are measured in the i-th turn. In every three
// successive turns, counted from the first, each build has each position once. In every six,
// each build follows each other build equally often.
func turn(i int) [3]int {
	return [...][3]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}[i%6]
}

// summary counts the verdicts, worst first.
func summary(rows []contrast) string {
	n := map[verdict]int{}
	for _, c := range rows {
		n[c.Verdict]++
	}
	text := fmt.Sprintf("%d rows: %d more than 10%% slower, %d ok, %d under 2 ms", len(rows), n[failed], n[held], n[unjudged])
	if n[noisy] > 0 {
		text += fmt.Sprintf("\nNOISY: %d rows are undecided, because two copies of one build differ by more than 10%%: measure them again on a quieter machine", n[noisy])
	}
	if n[unmeasured] > 0 {
		text += fmt.Sprintf("\nNOT MEASURED: %d rows, see above", n[unmeasured])
	}
	return text
}
