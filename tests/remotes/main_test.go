// Package remotes tries the plugin against remotes that misbehave, and with repositories that ask for a credential: the
// plugin's own program on a data directory of its own, called as the engine calls it, against real git over HTTP, TLS
// and ssh on loopback, with the faults of package gitserver in between.
//
// Each fault prints a line: its name, and what the user is told by `docker volume create`, by a mount, or in the
// volume's status. A test fails when that is not what it must be. They need root, git, ssh and sshd, and fail without.
package remotes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// program is the plugin's, built for this run.
var program string

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "remotes:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("run them as root: they mount")
	}
	dir, err := os.MkdirTemp("", "helmdeck-remotes-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "helmdeck-repos")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../plugin")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// report is held over each line.
var report sync.Mutex

// told prints the line of a fault.
func told(fault, words string) {
	if words == "" {
		words = "(nothing: it works)"
	}
	report.Lock()
	defer report.Unlock()
	fmt.Printf("%-34s %s\n", fault, strings.ReplaceAll(words, "\n", " | "))
}
