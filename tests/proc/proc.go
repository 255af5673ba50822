// Package proc finds the machine's processes, their parents and their command lines for tests.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// All returns the pids of all processes of the machine.
func All() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Parent returns the pid of a process's parent, or 0 if the process is gone.
func Parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name is in parentheses and may hold any character.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// IsInit reports whether a process is the first one of its own PID namespace, as the first process of
// a container is. It is false if the process is gone.
func IsInit(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			fields := strings.Fields(ids)
			return len(fields) > 1 && fields[len(fields)-1] == "1"
		}
	}
	return false
}

// Descendants returns the pids of the children of a process, of their children, and so on.
func Descendants(pid int) []int {
	parents := make(map[int]int)
	for _, p := range All() {
		parents[p] = Parent(p)
	}
	var list []int
	for p := range parents {
		above := parents[p]
		for above != 0 && above != pid {
			above = parents[above]
		}
		if above == pid {
			list = append(list, p)
		}
	}
	return list
}

// Args returns the arguments of a process, with the program's name first. A zombie has none. The
// error says that the process is gone.
func Args(pid int) ([]string, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(line) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), nil
}
