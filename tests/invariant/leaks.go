package invariant

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/tests/proc"
)

// Leaks lists the processes of this machine that use a directory: that have its path on their
// command line, work in it, or have a file below it open. It skips this process and those of
// except. nil means that no such process exists.
func Leaks(dir string, except ...int) error {
	except = append(except, os.Getpid())
	var errs []error
	for _, pid := range proc.All() {
		if slices.Contains(except, pid) {
			continue
		}
		args, err := proc.Args(pid)
		if err != nil {
			continue // the process has ended
		}
		if line := strings.Join(args, " "); uses(pid, dir) || strings.Contains(line, dir+"/") {
			errs = append(errs, fmt.Errorf("process %d is left: %s", pid, line))
		}
	}
	return errors.Join(errs...)
}

// uses reports whether a process works in dir or has a file below it open.
func uses(pid int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range append(links, fmt.Sprintf("/proc/%d/cwd", pid)) {
		if to, err := os.Readlink(link); err == nil && (to == dir || strings.HasPrefix(to, dir+"/")) {
			return true
		}
	}
	return false
}

// Descriptors returns the number of open file descriptors of a process.
func Descriptors(pid int) (int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(open), err
}

// Status returns a number from /proc/PID/status: a count, or KiB for a field in kB.
func Status(pid int, field string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field+":" {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("the status of process %d has no %s", pid, field)
}
