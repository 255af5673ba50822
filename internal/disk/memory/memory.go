// Package memory reports how much memory this process may use: the machine's, or that of
// its control group if that is less.
package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Limit returns how many bytes this process and its children may use together.
func Limit() (int64, error) { return limit(os.DirFS("/")) }

// Places below the root of the file system.
const (
	ownGroups = "proc/self/cgroup"
	machine   = "proc/meminfo"
	groups    = "sys/fs/cgroup"
)

func limit(root fs.FS) (int64, error) {
	least, err := total(root)
	if err != nil {
		return 0, err
	}
	data, err := fs.ReadFile(root, ownGroups)
	if errors.Is(err, fs.ErrNotExist) {
		return least, nil // a kernel without control groups
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		// An ID, the controllers, and the path of the group.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			return 0, fmt.Errorf("%s has the line %q", ownGroups, line)
		}
		var hierarchies []string
		file := "memory.max"
		switch controllers := "," + fields[1] + ","; {
		case controllers == ",,": // version 2, or the part of it beside version 1
			hierarchies = []string{groups, path.Join(groups, "unified")}
		case strings.Contains(controllers, ",memory,"):
			hierarchies, file = []string{path.Join(groups, "memory")}, "memory.limit_in_bytes"
		}
		for _, h := range hierarchies {
			n, err := leastOf(root, h, fields[2], file)
			if err != nil {
				return 0, err
			}
			least = min(least, n)
		}
	}
	return least, nil
}

// leastOf returns the lowest limit of a group and of its ancestors. In a container the
// path may be the host's while the root of the hierarchy is the container's own group: a
// group that can't be seen counts as unlimited.
func leastOf(root fs.FS, hierarchy, group, file string) (int64, error) {
	least := int64(math.MaxInt64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		n, err := read(root, path.Join(hierarchy, dir, file))
		if err != nil {
			return 0, err
		}
		least = min(least, n)
		if dir == "/" {
			return least, nil
		}
	}
}

// read returns the limit in a file, or math.MaxInt64 if it sets none.
func read(root fs.FS, name string) (int64, error) {
	data, err := fs.ReadFile(root, name)
	text := strings.TrimSpace(string(data))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return math.MaxInt64, nil // not a group, or the root of version 2
	case err != nil:
		return 0, err
	case text == "max":
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q is not a limit", name, text)
	}
	return n, nil
}

// total returns the memory of the machine.
func total(root fs.FS) (int64, error) {
	data, err := fs.ReadFile(root, machine)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no line MemTotal", machine)
}
