package dockerd

import (
	"os"
	"strings"
)

// Relevant selects the lines of an engine's log that help to explain a failure: the plugin's lines,
// warnings and errors.
func Relevant(line string) bool {
	return strings.Contains(line, " plugin=") && strings.Contains(line, " msg=") || !strings.Contains(line, "level=info")
}

// Tail returns the last lines of a file for which pick returns true, or the error as text.
func Tail(path string, lines int, pick func(line string) bool) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	var all []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
		if pick(line) {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
