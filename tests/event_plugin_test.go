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

// The plugin's mounts reach the host no more, without any crash: an engine that unmounts late leaves it like this.
// A container is refused, or has its tree.
func TestEventMountsSevered(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		for _, mode := range modes {
			s.e.sever(t)
			s.visitOn(t, mode)
			s.untouched(t)
		}
		s.e.sever(t)
		s.copies(t)
		s.visit(t)
		s.restart(t)
	}}.run(t)
}

// Running containers keep a detached workspace, and docker cp on them finds that or nothing.
func TestEventDisabledAndEnabled(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.e.disable(t)
		s.e.enable(t)
		s.untouched(t)
		s.copies(t)
		s.untouched(t)
		s.visit(t)
		s.restart(t)
	}}.run(t)
}

// A wrong value is given, the plugin does not start, the right one is given: the first enable works.
func TestEventWrongSetting(t *testing.T) {
	event{rounds: 20, happen: func(t *testing.T, s *stage) {
		s.e.disable(t)
		s.failToEnable(t)
		s.correct(t)
		s.restart(t)
		s.visit(t)
	}}.run(t)
}

// As a user does who does not understand: the same enable several times.
func TestEventEnableRepeated(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.e.disable(t)
		for range 3 {
			s.failToEnable(t)
		}
		s.correct(t)
		s.visit(t)
		s.restart(t)
	}}.run(t)
}

func (s *stage) failToEnable(t *testing.T) {
	t.Helper()
	s.e.docker(t, "plugin", "set", pluginName, "MOUNT_WAIT=for ever")
	s.e.refused(t, "plugin", "enable", pluginName)
}

// correct gives the right value and enables the plugin once, at once.
func (s *stage) correct(t *testing.T) {
	t.Helper()
	s.e.docker(t, "plugin", "set", pluginName, "MOUNT_WAIT=110s")
	if _, err := s.e.Try("plugin", "enable", pluginName); err != nil {
		began, tries := time.Now(), 1
		eventually(t, "a corrected plugin", func() error {
			tries++
			_, err := s.e.Try("plugin", "enable", pluginName)
			return err
		})
		t.Errorf("the corrected plugin was enabled at try %d, after %v; the first one said: %v", tries, time.Since(began).Round(time.Second), err)
	}
}

// Another build is installed under running containers, by what make install FORCE=1 runs.
func TestEventPluginUpgraded(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.upgrade(t)
		s.untouched(t)
		s.copies(t)
		s.visit(t)
		s.restart(t)
	}}.run(t)
}

// upgrade installs a build that is this one but for its identity. It is given by the scripts of the project, in a copy,
// because they take the plugin from there.
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
