// Package soak runs the plugin for some time with a disk budget that is too small: containers start
// and end at random on 30 clones, and the budget has room for a third of them. All files that the
// containers see, write and leave behind are checked the whole time.
//
// TestSubjects has many idle subjects instead, and measures what each takes.
//
// `make test-soak` runs for five minutes, and then with 20,000 subjects. `go test` runs for some
// seconds with proportionally less work. On a busy machine both continue until their work is done. The tests need root and loop
// devices, and fail without them.
package soak

import (
	"flag"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
)

var duration = flag.Duration("duration", 15*time.Second, "how long to work at least")

var (
	scratch string // the directory for all files of this run
	program string // the plugin's program
)

func TestMain(m *testing.M) {
	flag.Parse()
	daemon.Main("soak", nil, func(dir, built string) (int, error) {
		scratch, program = dir, built
		return m.Run(), nil
	})
}
