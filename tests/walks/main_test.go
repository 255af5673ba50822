package main

import "testing"

// TestRun checks that the instrumented copy of the module compiles, that its four walks end, and that a warm
// Mount stays within the limits of the scenario.
func TestRun(t *testing.T) {
	t.Chdir("../..")
	if err := run(); err != nil {
		t.Fatal(err)
	}
}
