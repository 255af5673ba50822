//go:build failpoints

package failpoint

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// any stands for all points together.
const any = "*"

var (
	mu   sync.Mutex // guards left, and keeps lines whole
	at   string
	left int
	log  = os.Getenv("HELMDECK_FAILPOINT_LOG")
)

func init() {
	name, n, counted := strings.Cut(os.Getenv("HELMDECK_FAILPOINT"), ":")
	at, left = name, 1
	if counted {
		left, _ = strconv.Atoi(n)
	}
	if at != "" && (left < 1 || at != any && !slices.Contains(Names, at)) {
		fmt.Fprintf(os.Stderr, "HELMDECK_FAILPOINT=%q is not a failpoint[:n]\n", os.Getenv("HELMDECK_FAILPOINT"))
		os.Exit(2)
	}
}

// Hit marks a failpoint, and kills the process there if the environment says so.
func Hit(name string) {
	mu.Lock()
	defer mu.Unlock()
	if log != "" {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(f, name)
		f.Close()
	}
	if name != at && at != any {
		return
	}
	if left--; left == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// Boot returns the boot ID that the program should use: the environment's, or else the
// kernel's.
func Boot(kernel string) string { return cmp.Or(os.Getenv("HELMDECK_BOOT"), kernel) }
