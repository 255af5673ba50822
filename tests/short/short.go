// Package short lets the long tables of tests run in part with go test -short.
package short

import (
	"hash/fnv"
	"testing"
)

// OneOf skips a case of a table with -short unless it is one of about one in n cases. A hash of the test's name decides, so
// that a case is always or never left out.
func OneOf(t *testing.T, n int) {
	t.Helper()
	if testing.Short() && !chosen(t.Name(), n) {
		t.Skipf("one of %d cases runs with -short", n)
	}
}

func chosen(name string, n int) bool {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails
	return h.Sum32()%uint32(n) == 0
}
