// Package soak lets the plugin work for a while with a budget that is too small: containers come and go at random on 30
// clones of which a third has room, and whatever they saw, wrote and left behind is checked all along.
//
// `make test-soak` does it for five minutes. `go test` does it for some seconds, with as much less to be done; on a busy
// machine both go on until that is done. The tests need root and loop devices, and fail without.
package soak

import (
	"flag"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
)

var duration = flag.Duration("duration", 15*time.Second, "how long to work at least")

var (
	scratch string // holds everything of this run
	program string // the plugin's
)

func TestMain(m *testing.M) {
	flag.Parse()
	daemon.Main("soak", nil, func(dir, built string) (int, error) {
		scratch, program = dir, built
		return m.Run(), nil
	})
}
