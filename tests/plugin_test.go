package tests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/tests/dockerd"
)

const pluginName = dockerd.PluginName

// pluginDir is the folder that `make plugin` fills: config.json and rootfs/.
func pluginDir() string { return cmp.Or(os.Getenv("PLUGIN_DIR"), "../build/plugin") }

// pluginProcesses are the plugin's process, first, and its descendants. None while it is down.
func (e *engine) pluginProcesses() []int {
	var inside []int
	for _, pid := range dockerd.Processes() {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && bytes.Contains(groups, []byte(e.Plugin)) {
			inside = append(inside, pid)
		}
	}
	first := slices.IndexFunc(inside, func(pid int) bool { return !slices.Contains(inside, dockerd.Parent(pid)) })
	if first > 0 {
		inside[0], inside[first] = inside[first], inside[0]
	}
	return inside
}

// pluginPID waits for a process of the plugin that is not the one given.
func (e *engine) pluginPID(t *testing.T, not int) int {
	t.Helper()
	var pid int
	eventually(t, "the plugin's process", func() error {
		pids := e.pluginProcesses()
		if len(pids) == 0 || pids[0] == not {
			return fmt.Errorf("%v", pids)
		}
		pid = pids[0]
		return nil
	})
	return pid
}

// disable disables the plugin by force, as under running containers.
func (e *engine) disable(t *testing.T) {
	t.Helper()
	e.docker(t, "plugin", "disable", "--force", pluginName)
}

// enable enables the plugin at the first try, with a timeout as make install gives it.
func (e *engine) enable(t *testing.T) {
	t.Helper()
	e.docker(t, "plugin", "enable", "--timeout", "120", pluginName)
}

// alone waits until the plugin has no children: no git is left, not even a zombie that nobody buries.
func (e *engine) alone(t *testing.T) {
	t.Helper()
	eventually(t, "the plugin's children", func() error {
		pids := e.pluginProcesses()
		if len(pids) <= 1 {
			return nil
		}
		var left []string
		for _, pid := range pids[1:] {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // tells a zombie, which has no command line
			name, _, _ := strings.Cut(string(stat), ") ")
			left = append(left, fmt.Sprintf("%s): %s", name, strings.ReplaceAll(string(line), "\x00", " ")))
		}
		return errors.New(strings.Join(left, "; "))
	})
}

// emptied waits until a folder of the plugin's data is empty or gone.
func (e *engine) emptied(t *testing.T, elem ...string) {
	t.Helper()
	eventually(t, "what is left", func() error {
		entries, err := os.ReadDir(e.Data(elem...))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s holds %d entries, the first %s", e.Data(elem...), len(entries), entries[0].Name())
		}
		return nil
	})
}

// clones are the folders of a subject's clones. The subject must be one whose name on disk is itself.
func (e *engine) clones(t *testing.T, subject string) []string {
	t.Helper()
	dirs, err := filepath.Glob(e.Data("clones", subject, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// reclaimed waits until a subject has no mount, no workspace and no volume left, and deletes its discards; its clones stay.
func (e *engine) reclaimed(t *testing.T, subject string) {
	t.Helper()
	e.unmounted(t, subject)
	client := e.admin(t)
	eventually(t, "the workspaces of subject "+subject+" to go", func() error {
		list, err := client.Discards(t.Context())
		for _, d := range list {
			if d.Subject == subject {
				err = errors.Join(err, client.RemoveDiscard(t.Context(), d.ID))
			}
		}
		left, globErr := filepath.Glob(e.Data("clones", subject, "*", "workspaces", "*"))
		if len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("%s is left", left[0]))
		}
		return errors.Join(err, globErr)
	})
}

// admin is a client of the plugin's admin socket, as root on the host has one. It is by way of the process, for the path of a
// socket may have 107 bytes only.
func (e *engine) admin(t *testing.T) *admin.Client {
	t.Helper()
	return admin.Dial(fmt.Sprintf("/proc/%d/root/run/docker/plugins/admin.sock", e.pluginPID(t, 0)))
}
