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
package metrics
