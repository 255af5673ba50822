package tests

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// An engine of version 20.10.24 counts the mounts of containers that outlived it from zero. docker
// cp on such a container must still find its own workspace, any number of times, and nothing may be
// left at the end. The container has several volumes.
func TestCopyLiveRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	for _, first := range []string{"copied", "restarted"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "--live-restore")
			several := map[string]string{"private": "/w", "shared": "/shared", "keep": "/keep"}
			var flags []string
			for mode, dir := range several {
				s.e.create(t, mode, "repo="+s.r.url, "ref=main", "subject=crash", "mode="+mode)
				if mode != "private" {
					flags = append(flags, "--mount", strings.Replace(mount(mode), "dst=/w", "dst="+dir, 1))
				}
			}
			c := s.e.sleeper(t, mount("private"), flags...)
			restart := func() {
				s.e.docker(t, "restart", "--time", "0", c.id)
				for mode := range several {
					s.e.wantOneLease(t, mode)
				}
			}
			if err := s.e.Kill(); err != nil {
				t.Fatal(err)
			}
			s.startAgain(t)
			if first == "restarted" {
				restart()
			}
			for range 3 {
				for mode, dir := range several {
					c.checkCopies(t, dir, mode+" "+first)
					s.e.wantOneLease(t, mode)
				}
			}
			restart()
			same(t, "restarted", c.sh(t, portrait), s.plain)
			c.checkCopies(t, "/w", "once more")
			s.e.docker(t, "stop", "--time", "0", c.id)
			for mode := range several {
				if list := s.e.leases(t, mode); len(list) > 0 {
					t.Errorf("%s of a stopped container: leases %v", mode, list)
				}
			}
			c.remove(t)
			for mode := range several {
				s.e.docker(t, "volume", "rm", mode)
			}
			s.wantUntouched(t)
			s.finish(t)
		})
	}
}

// wantOneLease checks that a volume has one lease with one mount.
func (e *engine) wantOneLease(t *testing.T, volume string) {
	t.Helper()
	if list := e.leases(t, volume); len(list) != 1 || list[0].(map[string]any)["mounts"] != 1.0 {
		t.Errorf("the leases of %s are %v, want one lease with one mount", volume, list)
	}
}

// checkCopies checks that docker cp, in both directions, copies the files that the container itself
// sees in dir.
func (c container) checkCopies(t *testing.T, dir, text string) {
	t.Helper()
	c.sh(t, "echo '"+text+"' >"+dir+"/.git/own")
	out, in := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "in")
	c.engine.docker(t, "cp", c.id+":"+dir+"/.git/own", out)
	wantFile(t, out, text+"\n")
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.engine.docker(t, "cp", in, c.id+":"+dir+"/.git/given")
	if got := c.sh(t, "cat "+dir+"/.git/given; rm "+dir+"/.git/given"); got != text {
		t.Errorf("docker cp copied %q to %s of the container, which reads %q", text, dir, got)
	}
}

// If a container ends while no engine runs, its volume is not unmounted. When it starts again with
// its old mount ID, it gets a clean workspace.
func TestContainerEndsBeforeLiveRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t, "--live-restore")
	pid, err := strconv.Atoi(strings.TrimSpace(s.e.docker(t, "inspect", "--format", "{{.State.Pid}}", s.worker.id)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.e.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.e.Start(); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, 0)
	for range 2 {
		s.e.docker(t, "start", s.worker.id)
		same(t, "started again", s.worker.sh(t, portrait), s.plain)
		s.worker.sh(t, work)
		s.e.wantOneLease(t, "busy")
		s.worker.checkCopies(t, "/w", "text")
		s.e.docker(t, "stop", "--time", "0", s.worker.id)
		if list := s.e.leases(t, "busy"); len(list) > 0 {
			t.Errorf("leases of a stopped container: %v", list)
		}
	}
	s.finish(t)
}
