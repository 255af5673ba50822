// Package soak lets the plugin work for a while with a budget that is too small: containers come and go at random on 30
// clones of which a third has room, and whatever they saw, wrote and left behind is checked all along.
//
// `make test-soak` does it for five minutes. `go test` does it for some seconds, with as much less to be done; on a busy
// machine both go on until that is done. The tests need root and loop devices, and fail without.
package soak

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
)

var duration = flag.Duration("duration", 15*time.Second, "how long to work at least")

var (
	// scratch holds everything of this run: open to the fetching uid, and short, for it is in the paths of sockets.
	scratch string
	program string
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (code int, err error) {
	log.SetOutput(io.Discard) // net/http/cgi complains of every client that hangs up
	if os.Geteuid() != 0 {
		return 1, errors.New("run the tests as root: they mount")
	}
	if scratch, err = os.MkdirTemp("/var/tmp", "hd-soak-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := os.Chmod(scratch, 0o755); err != nil {
		return 1, err
	}
	if program, err = daemon.Build(scratch); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
