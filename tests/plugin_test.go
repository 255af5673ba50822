package tests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/wait"
)

const pluginName = dockerd.PluginName

// pluginDir returns the directory that `make plugin` makes, with config.json and rootfs/.
func pluginDir() string { return cmp.Or(os.Getenv("PLUGIN_DIR"), "../build/plugin") }

// pluginProcesses returns the pids of the plugin's process, which comes first, and of its
// descendants. The list is empty while the plugin is down.
func (e *engine) pluginProcesses() []int {
	var inside []int
	for _, pid := range proc.All() {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || !bytes.Contains(groups, []byte(e.Plugin)) {
			continue
		}
		inside = append(inside, pid)
		if proc.IsInit(pid) {
			inside[0], inside[len(inside)-1] = pid, inside[0]
		}
	}
	if len(inside) > 0 && !proc.IsInit(inside[0]) { // the plugin ended, and its descendants are about to
		return nil
	}
	return inside
}

// pluginPID waits until the plugin has a process other than not, and returns its pid.
func (e *engine) pluginPID(t *testing.T, not int) int {
	t.Helper()
	var pid int
	wait.For(t, "the plugin's process", func() error {
		pids := e.pluginProcesses()
		if len(pids) == 0 || pids[0] == not {
			return fmt.Errorf("%v", pids)
		}
		pid = pids[0]
		return nil
	})
	return pid
}

// disable disables the plugin by force, which is possible while containers use it.
func (e *engine) disable(t *testing.T) {
	t.Helper()
	e.docker(t, "plugin", "disable", "--force", pluginName)
}

// enable enables the plugin with the same timeout as make install. The first try must succeed.
func (e *engine) enable(t *testing.T) {
	t.Helper()
	e.docker(t, "plugin", "enable", "--timeout", "120", pluginName)
}

// awaitNoChildren waits until the plugin has no child processes, not even zombies.
func (e *engine) awaitNoChildren(t *testing.T) {
	t.Helper()
	wait.For(t, "the plugin's children", func() error {
		pids := e.pluginProcesses()
		if len(pids) <= 1 {
			return nil
		}
		var left []string
		for _, pid := range pids[1:] {
			args, _ := proc.Args(pid)
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // has the name and state even of a zombie, which has no command line
			name, _, _ := strings.Cut(string(stat), ") ")
			left = append(left, fmt.Sprintf("%s): %s", name, strings.Join(args, " ")))
		}
		return errors.New(strings.Join(left, "; "))
	})
}

// awaitEmpty waits until a directory of the plugin's data is empty or gone.
func (e *engine) awaitEmpty(t *testing.T, elem ...string) {
	t.Helper()
	wait.For(t, "an empty directory", func() error {
		entries, err := os.ReadDir(e.Data(elem...))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s has %d entries, such as %s", e.Data(elem...), len(entries), entries[0].Name())
		}
		return nil
	})
}

// clones returns the directories of a subject's clones. The subject must not need to be encoded for
// the path.
func (e *engine) clones(t *testing.T, subject string) []string {
	t.Helper()
	dirs, err := filepath.Glob(e.Data("clones", subject, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// awaitReclaimed deletes a subject's checkpoints, and waits until the subject has no mount and no
// workspace left. Its clones stay.
func (e *engine) awaitReclaimed(t *testing.T, subject string) {
	t.Helper()
	e.awaitUnmounted(t, subject)
	client := e.admin(t)
	wait.For(t, "the workspaces of subject "+subject+" to go", func() error {
		list, err := client.Checkpoints(t.Context(), api.Filter{})
		for _, d := range list {
			if d.Subject == subject {
				err = errors.Join(err, client.RemoveCheckpoint(t.Context(), d.ID))
			}
		}
		left, globErr := filepath.Glob(e.Data("clones", subject, "*", "workspaces", "*"))
		if len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("%s is left", left[0]))
		}
		return errors.Join(err, globErr)
	})
}

// admin returns a client of the plugin's admin socket, as root on the host can make one. The path
// goes through the process's root directory, because the path of a socket may have 107 bytes at
// most.
func (e *engine) admin(t *testing.T) *api.Client {
	t.Helper()
	return api.Dial(fmt.Sprintf("/proc/%d/root/run/docker/plugins/admin.sock", e.pluginPID(t, 0)))
}
