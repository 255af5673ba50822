// Package crash kills the plugin at each of its failpoints, starts it again on the same data, and
// checks three things: everything that the plugin answered still holds, no file or mount is left
// over, and the interrupted operation succeeds when it is repeated.
//
// Each case is one point. It creates data, runs the operation that leads to the point until the
// process kills itself there, and starts the plugin again, which repairs the data. In some cases
// the repair is killed too, at its first point, then at its second, and so on. A case fails if its
// point was not hit. `make test-crash` prints a line for each case.
//
// The tests need root and loop devices, and fail without them.
package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
)

var (
	scratch string // the directory for all files of this run
	program string // the plugin's program, with failpoints
	server  *gitserver.Server
)

func TestMain(m *testing.M) {
	daemon.Main("crash", []string{"failpoints", "kubernetes"}, func(dir, built string) (code int, err error) {
		scratch, program = dir, built
		repositories := filepath.Join(scratch, "repos")
		if err := os.Mkdir(repositories, 0o755); err != nil {
			return 1, err
		}
		if server, err = gitserver.Start(repositories); err != nil {
			return 1, err
		}
		defer server.Close()
		code = m.Run()
		slices.Sort(lines)
		for _, line := range lines {
			fmt.Println(line)
		}
		return code, nil
	})
}

var (
	report sync.Mutex // guards lines
	lines  []string
)

// addLine adds the line of a case to the report, which is printed at the end.
func addLine(point, scenario, outcome string) {
	report.Lock()
	defer report.Unlock()
	lines = append(lines, fmt.Sprintf("%-30s %-28s %s", point, scenario, outcome))
}
