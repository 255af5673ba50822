// Package remotes tests the plugin against remotes that misbehave, and with repositories that ask
// for a credential. It runs the plugin's own program with its own data directory, and calls it as
// the engine does. The remotes are real git servers over HTTP, TLS and ssh on loopback, with the
// faults of package gitserver in front of them.
//
// Each fault prints a line: its name, and the message that a user gets from `docker volume create`,
// from a mount, or in the volume's status. The tests check these messages. They need root, git, ssh
// and sshd, and fail without them.
package remotes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/tests/daemon"
)

// program is the plugin's program, built for this run.
var program string

func TestMain(m *testing.M) {
	daemon.Main("remotes", nil, func(_, built string) (int, error) {
		program = built
		if err := daemon.DoubleParallel(); err != nil {
			return 1, err
		}
		code := m.Run()
		slices.Sort(lines)
		for _, line := range lines {
			fmt.Println(line)
		}
		return code, nil
	})
}

var (
	report sync.Mutex // guards lines
	lines  []string
)

// addLine adds the line of a fault to the report, which is printed at the end.
func addLine(fault, message string) {
	if message == "" {
		message = "(nothing: it works)"
	}
	report.Lock()
	defer report.Unlock()
	lines = append(lines, fmt.Sprintf("%-42s %s", fault, strings.ReplaceAll(message, "\n", " | ")))
}
