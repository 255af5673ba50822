package shipped

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/wait"
)

// cgroup is a memory cgroup of version 1 or 2.
type cgroup struct {
	dir string
	v2  bool
}

const cgroupRoot = "/sys/fs/cgroup"

// newCgroup creates a group with a memory limit in bytes, below this process's own group. Where
// that fails, it creates the group below the root group.
func newCgroup(name string, limit int64) (*cgroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &cgroup{}
	base, parent := "", ""
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case strings.Contains(","+fields[1]+",", ",memory,"):
			base, parent, g.v2 = filepath.Join(cgroupRoot, "memory"), fields[2], false
		case fields[0] == "0" && base == "":
			base, parent, g.v2 = cgroupRoot, fields[2], true
		}
	}
	if base == "" {
		return nil, errors.New("no memory controller")
	}
	var errs []error
	for _, above := range []string{filepath.Join(base, parent), base} {
		g.dir = filepath.Join(above, name)
		if g.v2 {
			// A group that contains processes cannot delegate a controller to its children.
			if err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		err := os.Mkdir(g.dir, 0o755)
		if err == nil {
			if err = g.set(limit); err == nil {
				return g, nil
			}
			err = errors.Join(err, os.Remove(g.dir))
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (g *cgroup) set(limit int64) error {
	name := "memory.limit_in_bytes"
	if g.v2 {
		name = "memory.max"
	}
	return os.WriteFile(filepath.Join(g.dir, name), []byte(strconv.FormatInt(limit, 10)), 0)
}

// procs returns the IDs of the processes in the group.
func (g *cgroup) procs() ([]int, error) {
	data, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	var pids []int
	for _, word := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, err
}

// oomKills returns how many processes of the group the kernel's OOM killer has killed.
func (g *cgroup) oomKills() (int, error) {
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	data, err := os.ReadFile(filepath.Join(g.dir, name))
	for line := range strings.Lines(string(data)) {
		if word, n, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word == "oom_kill" {
			return strconv.Atoi(n)
		}
	}
	return 0, err
}

// remove kills the processes that are left in the group, all of which are the plugin's, and removes
// the group.
func (g *cgroup) remove(l wait.Limit) error {
	err := wait.Until(l, func() error {
		pids, err := g.procs()
		if err != nil {
			return wait.Final(err)
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		if err = os.Remove(g.dir); err != nil && !errors.Is(err, unix.EBUSY) {
			err = wait.Final(err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the memory cgroup: %w", err)
	}
	return nil
}
