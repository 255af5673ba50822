// Package checkpoints makes checkpoints of workspaces of the real program while programs write to them, and compares what
// begins with these with what the programs had: plain files of all kinds with a writer of its own, SQLite and git.
//
// A pause is that of an engine: the control group of the writers is frozen. `make test` makes few checkpoints, and
// `make test-checkpoints` 500 on each filesystem. The tests need root.
package checkpoints

import (
	"flag"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
)

var (
	rounds = flag.Int("rounds", 18, "how many checkpoints are made of random writers, on each filesystem; a tenth as many of each program")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random writers")
)

var (
	scratch  string // the directory for all files of this run
	program  string // the plugin's program
	scribble string // the random writer's
)

func TestMain(m *testing.M) {
	flag.Parse()
	daemon.Main("checkpoints", nil, func(dir, built string) (int, error) {
		scratch, program, scribble = dir, built, filepath.Join(dir, "scribble")
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", scribble, "github.com/helmdeck/repos/tests/testtree/scribble")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, &exec.Error{Name: string(out), Err: err}
		}
		return m.Run(), nil
	})
}
