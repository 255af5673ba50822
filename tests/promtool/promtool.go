// Package promtool runs promtool, which checks metrics, rules and tests of rules as
// Prometheus reads them.
package promtool

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Run runs promtool in the working directory, with stdin, and fails the test if promtool
// fails or warns.
func Run(t testing.TB, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// program returns the path of promtool: of the machine, or in build/tools, where `make needs`
// puts it.
func program(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "build/tools/usr/bin/promtool")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("promtool is missing: run make needs")
	return ""
}
