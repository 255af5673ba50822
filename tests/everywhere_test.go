package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mountsEverywhere says where workspaces are mounted, in each mount namespace of the machine: one of these mounts is what
// keeps a workspace busy. A thread may have a namespace of its own, as one of the engine has for docker cp. Tasks that wait
// for a disk are listed too, because one that ends in such a wait is in no namespace any more, and still has its mounts.
func mountsEverywhere() string {
	var list []string
	known := map[string]bool{}
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, task := range tasks {
		name, _ := os.ReadFile(filepath.Join(task, "comm"))
		of := fmt.Sprintf("%s (%s)", strings.TrimPrefix(task, "/proc/"), strings.TrimSpace(string(name)))
		if stat, err := os.ReadFile(filepath.Join(task, "stat")); err == nil && strings.Contains(string(stat), ") D ") {
			stack, _ := os.ReadFile(filepath.Join(task, "stack"))
			list = append(list, fmt.Sprintf("%s waits: %s", of, strings.Join(strings.Fields(string(stack)), " ")))
		}
		namespace, err := os.Readlink(filepath.Join(task, "ns/mnt"))
		if err != nil || known[namespace] {
			continue
		}
		known[namespace] = true
		mounts, _ := os.ReadFile(filepath.Join(task, "mountinfo"))
		for line := range strings.Lines(string(mounts)) {
			if !strings.Contains(line, " helmdeck-repos ") {
				continue
			}
			if fields := strings.Fields(line); len(fields) > 6 {
				list = append(list, fmt.Sprintf("%s in %s of %s", fields[4], namespace, of))
			}
		}
	}
	return strings.Join(list, "; ")
}
