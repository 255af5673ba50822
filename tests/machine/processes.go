package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/tests/proc"
)

// mark is the environment variable that tests/run sets to the checkout, and that its descendants
// inherit.
const mark = "MACHINE_TESTS"

// traces are parts of paths that only the tests use, besides the checkout's build directory. A
// container has them in its table of mounts, and a daemon in its arguments.
var traces = []string{"/var/tmp/hd-", "/var/tmp/helmdeck-", "/var/tmp/release-"}

// traced reports whether a text names a path that only the tests use.
func traced(text, top string) bool {
	return slices.ContainsFunc(append(traces, filepath.Join(top, "build")+"/"), func(trace string) bool { return strings.Contains(text, trace) })
}

// processes adds the processes of tests but for this one and its ancestors.
func (s state) processes(top string) error {
	var own []int
	for pid := os.Getpid(); pid > 0; pid = proc.Parent(pid) {
		own = append(own, pid)
	}
	for _, pid := range proc.All() {
		if slices.Contains(own, pid) {
			continue
		}
		args, err := proc.Args(pid)
		if err != nil || len(args) == 0 { // it has ended, or belongs to the kernel
			continue
		}
		if ofTests(pid, top) {
			s[thing{"process", fmt.Sprintf("%d, since %s", pid, start(pid))}] = strings.Join(args, " ")
		}
	}
	return nil
}

// ofTests reports whether a process has to do with the tests.
func ofTests(pid int, top string) bool {
	dir := fmt.Sprintf("/proc/%d/", pid)
	environ, _ := os.ReadFile(dir + "environ")
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if string(variable) == mark+"="+top {
			return true
		}
	}
	var text strings.Builder
	for _, file := range []string{"cmdline", "mountinfo"} {
		data, _ := os.ReadFile(dir + file)
		if file == "mountinfo" && sameMounts(pid) {
			continue
		}
		text.Write(data)
	}
	for _, link := range []string{"exe", "cwd", "root"} {
		target, _ := os.Readlink(dir + link)
		text.WriteString("\n" + target)
	}
	return traced(text.String(), top)
}

// sameMounts reports whether a process has the mount namespace of this one.
func sameMounts(pid int) bool {
	own, err := os.Readlink("/proc/self/ns/mnt")
	other, otherErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return err == nil && otherErr == nil && own == other
}

// start returns the time of a process's start, in ticks since the boot.
func start(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
