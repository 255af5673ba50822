package dockerd

import (
	"os"
	"strings"
)

// Telling picks the lines of an engine's log that tell something: the plugin's, and complaints.
func Telling(line string) bool {
	return strings.Contains(line, " plugin=") && strings.Contains(line, " msg=") || !strings.Contains(line, "level=info")
}

// Tail is the last of the lines of a file that pick wants, for messages.
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
