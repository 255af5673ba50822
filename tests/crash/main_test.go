// Package crash kills the plugin at each of its failpoints, starts it again on the same data, and checks that nothing
// was lost that was answered, that nothing is left that belongs to nobody, and that what was being done can be done.
//
// Each case is one point: data is made, what leads to the point is done until the process has killed itself there, and
// the next start repairs. In some cases the repair is killed too, at its first point, then at its second, and so on. A
// case fails when its point was not hit. `make test-crash` prints a line for each.
//
// The tests need root and loop devices, and fail without.
package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
)

var (
	scratch string // holds everything of this run
	program string // the plugin's, with its failpoints
	server  *gitserver.Server
)

func TestMain(m *testing.M) {
	daemon.Main("crash", []string{"failpoints"}, func(dir, built string) (code int, err error) {
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

// told notes the line of a case, to be printed at the end.
func told(point, doing, outcome string) {
	report.Lock()
	defer report.Unlock()
	lines = append(lines, fmt.Sprintf("%-30s %-28s %s", point, doing, outcome))
}
