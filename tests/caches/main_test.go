// Package caches runs real package managers in containers whose caches the plugin publishes: mount namespaces with the
// machine's programs and one workspace. Tools are killed at random moments, and many work at once. Each build must give
// what it gives without a cache.
//
// `make test` runs few rounds with the same seed each time, and of the tools only Go, which downloads there; `make test-all` lets it
// build, too; `make test-recipes` runs all tools, and ROUNDS=n repeats more. The tests need root, and fail without a tool.
package caches

import (
	"flag"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
)

var (
	rounds = flag.Int("rounds", 1, "how often a tool is killed, and what it left is used")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the moments at which tools are killed, and of random trees")
)

var (
	scratch string // the directory for all files of this run
	program string // the plugin's program
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		*seed = 1
	}
	daemon.Main("caches", nil, func(dir, built string) (int, error) {
		scratch, program = dir, built
		return m.Run(), nil
	})
}
