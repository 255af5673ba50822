package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/wait"
)

// killPlugin ends the plugin's process with SIGKILL and waits for the next one.
func (s *stage) killPlugin(t *testing.T) {
	t.Helper()
	pid := s.e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, pid)
}

// Without any crash the plugin's mounts no longer reach the host, as after an engine that unmounts
// late. A container either fails to start or has its tree.
func TestEventMountsSevered(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		for _, mode := range modes {
			s.e.sever(t)
			s.runNewOf(t, mode)
			s.wantUntouched(t)
		}
		s.e.sever(t)
		s.checkCopies(t)
		s.runNew(t)
		s.restart(t)
	}}.run(t)
}

// After the plugin is disabled by force, running containers keep their workspaces, which are
// detached. docker cp on a container finds its workspace, or fails.
func TestEventDisabledAndEnabled(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.e.disable(t)
		s.e.enable(t)
		s.wantUntouched(t)
		s.checkCopies(t)
		s.wantUntouched(t)
		s.runNew(t)
		s.restart(t)
	}}.run(t)
}

// With a wrong value of a setting the plugin does not start. After a correction the first enable
// works.
func TestEventWrongSetting(t *testing.T) {
	event{rounds: 20, happen: func(t *testing.T, s *stage) {
		s.e.disable(t)
		s.failToEnable(t)
		s.correctSetting(t)
		s.restart(t)
		s.runNew(t)
	}}.run(t)
}

// A user repeats enable with the wrong setting several times.
func TestEventEnableRepeated(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.e.disable(t)
		for range 3 {
			s.failToEnable(t)
		}
		s.correctSetting(t)
		s.runNew(t)
		s.restart(t)
	}}.run(t)
}

// failToEnable sets a wrong value, and checks that the plugin cannot be enabled.
func (s *stage) failToEnable(t *testing.T) {
	t.Helper()
	s.e.docker(t, "plugin", "set", pluginName, "MOUNT_WAIT=for ever")
	s.e.wantError(t, "plugin", "enable", pluginName)
}

// correctSetting sets the right value, and checks that the first try to enable the plugin succeeds.
func (s *stage) correctSetting(t *testing.T) {
	t.Helper()
	s.e.docker(t, "plugin", "set", pluginName, "MOUNT_WAIT=110s")
	if _, err := s.e.Try("plugin", "enable", pluginName); err != nil {
		began, tries := time.Now(), 1
		wait.For(t, "a corrected plugin", func() error {
			tries++
			_, err := s.e.Try("plugin", "enable", pluginName)
			return err
		})
		t.Errorf("the corrected plugin was enabled at try %d, after %v; error of the first try: %v", tries, time.Since(began).Round(time.Second), err)
	}
}

// Another build is installed while containers run, with the script of make install FORCE=1.
func TestEventPluginUpgraded(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.upgrade(t)
		s.wantUntouched(t)
		s.checkCopies(t)
		s.runNew(t)
		s.restart(t)
	}}.run(t)
}

// upgrade installs a build that differs from this one only in its identity. It runs a copy of the
// project's scripts, because they take the plugin from their own project directory.
func (s *stage) upgrade(t *testing.T) {
	t.Helper()
	project := t.TempDir()
	tools, err := filepath.Abs("../build/tools")
	if err != nil {
		t.Fatal(err)
	}
	hostScript(t, "/", `
		mkdir "$1/build"
		cp -r "$2" "$1/rootfs"
		cp -a "$3" "$1/build/plugin"
		mkdir -p "$4"
		ln -s "$4" "$1/build/tools"`, project, abs(t, "../rootfs"), abs(t, pluginDir()), tools)
	config := filepath.Join(project, "build/plugin/config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	identity := regexp.MustCompile(`\(build [0-9a-f]*\)`)
	id := strings.TrimLeft(time.Now().Format("150405.000000"), "0")
	id = strings.ReplaceAll(id, ".", "")
	text = identity.ReplaceAll(text, []byte("(build "+id+")"))
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	// 20.10 refuses a second plugin with the same files.
	if err := os.WriteFile(filepath.Join(project, "build/plugin/rootfs/etc/trial"), []byte(id), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(project, "rootfs/install"))
	cmd.Env = append(s.e.Command().Env, "FORCE=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "upgraded") {
		t.Fatalf("install: %v: %s", err, out)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
