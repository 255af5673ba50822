package main

import (
	"os"
	"syscall"
	"testing"
)

// TestServiceDoesNotChangeRoot checks that a service of the host does not change the root directory,
// because that is the host's. Even a chmod to the same mode changes the time.
//
// Not parallel: a managed plugin of another test would change the root directory.
func TestServiceDoesNotChangeRoot(t *testing.T) {
	before := changed(t, "/")
	p := start(t, scratch(t))
	if got := changed(t, "/"); got != before {
		t.Errorf("the status of / changed at %v, before at %v", got, before)
	}
	if info, err := os.Stat(p.at.data); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the data directory: %v, %v; want it open for git, which is not root", info.Mode(), err)
	}
}

// changed returns when the status of a file was changed.
func changed(t *testing.T, path string) syscall.Timespec {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ctim
}
