package main

import "testing"

// TestRun checks that the instrumented copy of the module compiles, and that its four walks end.
func TestRun(t *testing.T) {
	t.Chdir("../..")
	if err := run(); err != nil {
		t.Fatal(err)
	}
}
