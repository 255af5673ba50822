package invariant

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Leaks says which processes of this machine, but for this one and those of except, are about a directory: they name
// it, work in it, or have something below it open. nil is none.
func Leaks(dir string, except ...int) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	skip := map[int]bool{os.Getpid(): true}
	for _, pid := range except {
		skip[pid] = true
	}
	var errs []error
	for _, proc := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(proc))
		if skip[pid] {
			continue
		}
		words, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if about(proc, dir) || bytes.Contains(words, []byte(dir+"/")) {
			errs = append(errs, fmt.Errorf("process %d is left: %s", pid, bytes.ReplaceAll(words, []byte{0}, []byte(" "))))
		}
	}
	return errors.Join(errs...)
}

// about says whether a process works in dir or has something of it open.
func about(proc, dir string) bool {
	links, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	for _, link := range append(links, filepath.Join(proc, "cwd")) {
		if to, err := os.Readlink(link); err == nil && (to == dir || strings.HasPrefix(to, dir+"/")) {
			return true
		}
	}
	return false
}

// Descriptors counts what a process has open.
func Descriptors(pid int) (int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(open), err
}

// Status is a number of /proc/PID/status: a count, or KiB where the kernel says kB.
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
