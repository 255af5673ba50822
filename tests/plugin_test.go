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
)

const pluginName = "helmdeck/repos"

// pluginDir is the folder that `make plugin` fills: config.json and rootfs/.
func pluginDir() string { return cmp.Or(os.Getenv("PLUGIN_DIR"), "../build/plugin") }

// install creates the plugin in the engine and enables it with the settings.
func (e *engine) install(settings []string) error {
	if _, err := os.Stat(filepath.Join(pluginDir(), "config.json")); err != nil {
		return fmt.Errorf("no plugin: run make plugin first: %w", err)
	}
	if _, err := e.try("plugin", "create", pluginName, pluginDir()); err != nil {
		return err
	}
	if len(settings) > 0 {
		if _, err := e.try(append([]string{"plugin", "set", pluginName}, settings...)...); err != nil {
			return err
		}
	}
	if _, err := e.try("plugin", "enable", "--timeout", "120", pluginName); err != nil {
		return err
	}
	id, err := e.try("plugin", "inspect", "--format", "{{.Id}}", pluginName)
	e.plugin = id
	return err
}

// data is a path of the plugin's /data, as the host sees it.
func (e *engine) data(elem ...string) string {
	return e.path(append([]string{"data/plugins", e.plugin, "propagated-mount"}, elem...)...)
}

// pluginProcesses are the plugin's process, first, and its descendants. None while it is down.
func (e *engine) pluginProcesses() []int {
	var inside []int
	for _, pid := range allProcesses() {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && bytes.Contains(groups, []byte(e.plugin)) {
			inside = append(inside, pid)
		}
	}
	first := slices.IndexFunc(inside, func(pid int) bool { return !slices.Contains(inside, parent(pid)) })
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
		entries, err := os.ReadDir(e.data(elem...))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s holds %d entries, the first %s", e.data(elem...), len(entries), entries[0].Name())
		}
		return nil
	})
}

// clones are the folders of a subject's clones. The subject must be one whose name on disk is itself.
func (e *engine) clones(t *testing.T, subject string) []string {
	t.Helper()
	dirs, err := filepath.Glob(e.data("clones", subject, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// reclaimed waits until a subject has no mount, no workspace and no volume left; its clones stay.
func (e *engine) reclaimed(t *testing.T, subject string) {
	t.Helper()
	e.unmounted(t, "clones", subject)
	for _, dir := range e.clones(t, subject) {
		e.emptied(t, "clones", subject, filepath.Base(dir), "workspaces")
	}
}

// reattach starts the plugin anew if the engine, when it came back after it was killed, has unmounted the propagated mount
// under the plugin that it has just started: it handles the end of the old process late, with a recursive unmount. What the
// new process mounts then reaches nobody, and it can't see that; an operator has to do the same. The host's mount table
// tells the two apart: as long as the propagated mount is there, nothing is done and nothing is forgiven.
func (e *engine) reattach(t *testing.T) {
	t.Helper()
	dir := e.data()
	mounts, err := mountsBelow(dir)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(mounts, dir) {
		return
	}
	t.Logf("the engine has unmounted %s under the running plugin: enabling it anew", dir)
	e.docker(t, "plugin", "disable", "-f", pluginName)
	e.docker(t, "plugin", "enable", "--timeout", "120", pluginName)
}
