// Package metrics has the plugin's metrics for Prometheus: their names, their meaning, and
// the handler that serves them.
//
// The core packages know nothing of it. Counters has functions that they call, as their
// configurations say, and Figures are values that they keep anyway, which are read at each
// scrape: a scrape uses memory only, except for the plugin's own entries in /proc and one
// statfs.
//
// The labels have few values, whatever users do: results, kinds and classes that the program
// names itself. Only with Config.Subjects there are labels with the names of subjects, of
// the largest ones alone.
//
// docs/reference/metrics.md lists the metrics; a test compares it with what the handler serves.
//
// # Why so
//
//   - Counters are events: a label has only values that the code names, so that nobody can make the number of series
//     grow. The series exist from the start, because Prometheus sees no increase in one that begins with 1.
//   - All else is read at a scrape: 1,000 clones with 3,000 workspaces cost some 4 ms of one processor
//     (BenchmarkScrape), not half of it for the metrics of Go and the text. Scrapes at the same time share one
//     reading.
//   - The client library, which this package alone knows, costs 2.4 MB of program, 2.4 MB of resident memory in an
//     idle plugin (16 MB; up to 22 MB after scrapes) and 1.3 ms for each start of the program, which the process of a
//     checkout is too.
//   - The alert rules in deploy/prometheus are about states in which somebody must act. A full MAX_SIZE is none,
//     because a cache is meant to be full; one is about what can't be evicted: after each sweep the janitor says how
//     much it could still evict.
package metrics
