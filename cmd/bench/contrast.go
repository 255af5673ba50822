package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

const (
	// slower is the limit on a row's ratio of its time to its former time.
	slower = 1.1
	// judged is the time, in milliseconds, above which a row is judged. A tenth of a shorter
	// time is less than the noise of a busy machine's scheduler.
	judged = 2
)

// contrast is a row that was measured in turns on two builds: this one and the one before. The
// values of a turn, in milliseconds, have the same index.
type contrast struct {
	name string
	column
	this, before []float64
}

// ratio returns this build's time over that of the one before: the median of the turns' ratios, not
// the ratio of medians. The values of a turn are measured within seconds, so that a machine that is
// slower for some turns changes both sides of each ratio.
func (c contrast) ratio() float64 {
	var ratios []float64
	for i := range c.this {
		ratios = append(ratios, c.this[i]/c.before[i])
	}
	return median(ratios)
}

// isSlower reports whether the ratio exceeds the limit. A row is judged if either build takes long
// enough, so that a row that was fast and becomes slow is not ignored.
func (c contrast) isSlower() bool {
	return c.ratio() > slower && max(median(c.this), median(c.before)) > judged
}

// write writes the last turn in the format of Go's benchmarks, for benchstat -col build.
func (c contrast) write(w io.Writer) error {
	name := []rune(strings.ReplaceAll(c.name, " ", "_"))
	name[0] = unicode.ToUpper(name[0])
	of := fmt.Sprintf("files=%d", c.files)
	if c.repo != "" {
		of = "repo=" + c.repo
	}
	last := len(c.this) - 1
	_, err := fmt.Fprintf(w, "build: before\nBenchmark%[1]s/%[2]s 1 %.0[3]f ns/op\nbuild: this\nBenchmark%[1]s/%[2]s 1 %.0[4]f ns/op\n",
		string(name), of, c.before[last]*1e6, c.this[last]*1e6)
	return err
}
