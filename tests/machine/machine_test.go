package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testdir"
)

func TestMain(m *testing.M) {
	if err := dockerd.Isolate(); err != nil { // the test changes links and rules
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// command runs a program, which must succeed.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

// noted returns what look finds, as note has written it and compare reads it.
func noted(t *testing.T, top string) state {
	t.Helper()
	s, err := look(top)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "noted")
	if err := s.write(file); err != nil {
		t.Fatal(err)
	}
	if s, err = read(file); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCompare leaves, takes and changes a thing of each kind, and does the same to things of other programs.
func TestCompare(t *testing.T) {
	top := testdir.New(t, "machine")
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"build", ".git", "point", "old"} {
		if err := os.Mkdir(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("changed", "one")
	write("a \"quoted\"\nname", "")
	command(t, "ip", "link", "add", "docker0", "type", "bridge")
	command(t, "ip", "link", "add", "others", "type", "bridge")
	before := noted(t, top)

	command(t, "ip", "link", "del", "docker0")
	command(t, "ip", "link", "add", "docker_gwbridge", "type", "bridge")
	command(t, "ip", "link", "del", "others")
	write("changed", "three")
	write("left/below/file", "")
	write("testdata/rapid/TestOrder/1.fail", "")
	write("build/output", "")
	write(".git/object", "")
	for _, dir := range []string{"build/point", "point"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", at(dir), "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	left := exec.Command("sleep", "1000")
	left.Env = []string{mark + "=" + top}
	unrelated := exec.Command("sleep", "1000")
	for _, cmd := range []*exec.Cmd{left, unrelated} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}

	lines := compare(before, noted(t, top), top)
	for _, want := range []string{
		"link gone: docker0", "link left: docker_gwbridge",
		"file changed: " + at("changed"), "file left: " + at("left"), "file left: " + at("testdata") + " (a property test failed", "mount left: " + at("build/point") + " tmpfs tmpfs",
		fmt.Sprintf("process left: %d, since ", left.Process.Pid),
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no line begins with %q", want)
		}
	}
	for _, line := range lines {
		if strings.Contains(line, top) && (strings.Contains(line, "below") || strings.Contains(line, "build/output") || strings.Contains(line, ".git") ||
			strings.Contains(line, "quoted")) || strings.Contains(line, "others") || strings.HasPrefix(line, fmt.Sprintf("process left: %d,", unrelated.Process.Pid)) {
			t.Errorf("a line for what is no difference: %s", line)
		}
	}
	if t.Failed() {
		t.Logf("all lines:\n%s", strings.Join(lines, "\n"))
	}
}
