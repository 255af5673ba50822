package main

import (
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestUnitHasKeptCapabilities checks that the service of the host is given the capabilities that the
// program keeps, and no other.
func TestUnitHasKeptCapabilities(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../packaging/deb/helmdeck-repos/helmdeck-repos.service")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(unit)) {
		if names, found := strings.CutPrefix(line, "CapabilityBoundingSet="); found {
			got = append(got, strings.Fields(names)...)
		}
	}
	for c := range uintptr(bits.UintSize) {
		if kept&(1<<c) != 0 {
			want = append(want, capabilityName(c))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the unit has\n%s, want\n%s", got, want)
	}
}
