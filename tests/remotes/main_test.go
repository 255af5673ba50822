// Package remotes tries the plugin against remotes that misbehave, and with repositories that ask for a credential: the
// plugin's own program on a data directory of its own, called as the engine calls it, against real git over HTTP, TLS
// and ssh on loopback, with the faults of package gitserver in between.
//
// Each fault prints a line: its name, and what the user is told by `docker volume create`, by a mount, or in the
// volume's status. A test fails when that is not what it must be. They need root, git, ssh and sshd, and fail without.
package remotes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/tests/daemon"
)

// program is the plugin's, built for this run.
var program string

func TestMain(m *testing.M) {
	daemon.Main("remotes", nil, func(_, built string) (int, error) {
		program = built
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

// told notes the line of a fault, to be printed at the end.
func told(fault, words string) {
	if words == "" {
		words = "(nothing: it works)"
	}
	report.Lock()
	defer report.Unlock()
	lines = append(lines, fmt.Sprintf("%-42s %s", fault, strings.ReplaceAll(words, "\n", " | ")))
}
