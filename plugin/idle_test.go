package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/daemon"
)

// idleMost bounds the resident memory of the idle plugin, in KiB.
const idleMost = 25 << 10

// TestIdleMemory checks the memory of the program as it ships: after its start, and after scrapes
// that came one after the other.
//
// Not parallel: it measures memory, which the garbage collector returns later on a busy machine.
func TestIdleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	program, err := daemon.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t, daemon.Config{Program: program, Dir: scratch(t), Env: []string{"METRICS_ADDR=127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	addr, err := d.MetricsAddr()
	if err != nil {
		t.Fatal(err)
	}
	before := resident(t, d.Pid())
	for range 100 {
		if status, body := get(t, "GET", "http://"+addr+"/metrics"); status != 200 {
			t.Fatalf("status %d: %s", status, body)
		}
	}
	after := resident(t, d.Pid())
	t.Logf("%d KiB, and after scrapes %d KiB", before, after)
	if max(before, after) > idleMost {
		t.Errorf("the idle plugin takes %d KiB, and after scrapes %d KiB; want at most %d", before, after, idleMost)
	}
}

// resident returns the resident memory of a process in KiB.
func resident(t *testing.T, pid int) (size int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "\nVmRSS:")
	if _, err := fmt.Sscan(rest, &size); !ok || err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return size
}
