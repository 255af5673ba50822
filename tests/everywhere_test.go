package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mountsEverywhere lists the mounts of workspaces in all mount namespaces of the machine, to find
// the mount that keeps a workspace busy. A thread can have its own namespace, such as a thread of
// the engine for docker cp. The list also has tasks that wait for a disk: a task that ends in such
// a wait is no longer in a namespace, but still holds its mounts.
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
