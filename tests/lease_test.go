package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/wait"
)

// leases returns the leases in the Status of a volume, each with its count.
func (e *engine) leases(t *testing.T, volume string) []any {
	t.Helper()
	list, ok := e.status(t, volume)["leases"].([]any)
	if !ok {
		t.Fatalf("status of %s has no leases", volume)
	}
	return list
}

// killAll kills the engine and the plugin at once, as a service manager does that kills all
// processes of the engine. The containers keep running until the engine starts again.
func (e *engine) killAll(t *testing.T) {
	t.Helper()
	pid := e.pluginPID(t, 0)
	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// The engine and the plugin are killed together, and the engine starts containers again with their
// old mount IDs. A private volume gets a new workspace, and no old lease is left.
func TestKillEngineAndPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	again, gone := map[string]container{}, map[string]container{}
	for _, mode := range modes {
		e.create(t, mode, "repo="+r.url, "ref=main", "mode="+mode, "subject=leases")
		again[mode] = e.sleeper(t, mount(mode), "--restart", "always")
		gone[mode] = e.sleeper(t, mount(mode))
		again[mode].sh(t, work)
	}
	for round := range 2 {
		e.killAll(t)
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
		for _, mode := range modes {
			what := fmt.Sprintf("round %d, %s", round, mode)
			c := again[mode]
			wait.For(t, what+": the container to run again", func() error {
				if !c.running(t) {
					return fmt.Errorf("it is not running")
				}
				return nil
			})
			if mode == "keep" {
				if got := c.sh(t, proof); got != proofOutput {
					t.Errorf("%s: got %q, want %q", what, got, proofOutput)
				}
			} else {
				same(t, what, c.sh(t, portrait), want)
				c.sh(t, work)
			}
			wait.For(t, what+": the leases of containers that are gone", func() error {
				if list := e.leases(t, mode); len(list) != 1 || list[0].(map[string]any)["mounts"] != 1.0 {
					return fmt.Errorf("%v", list)
				}
				return nil
			})
			if gone[mode].running(t) {
				t.Errorf("%s: the container without a restart policy runs", what)
			}
		}
	}
	for _, mode := range modes {
		again[mode].remove(t)
		gone[mode].remove(t)
		if list := e.leases(t, mode); len(list) > 0 {
			t.Errorf("%s: leases are left: %v", mode, list)
		}
		e.docker(t, "volume", "rm", mode)
	}
	e.awaitReclaimed(t, "leases")
	e.awaitUnmounted(t)
	e.awaitEmpty(t, "trash")
}

// With live-restore the containers outlive the engine and the plugin, and so do their leases.
func TestKillEngineAndPluginLiveRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t, "--live-restore")
	s.e.killAll(t)
	s.startAgain(t)
	s.wantWhole(t)
	s.e.checkOwnCopy(t, s.worker)
	s.finish(t)
}

// checkOwnCopy checks that docker cp on a container copies the container's own file, or fails with
// the reason.
func (e *engine) checkOwnCopy(t *testing.T, worker container) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if _, err := e.Try("cp", worker.id+":/w/README.md", out); err != nil {
		if !strings.Contains(err.Error(), "a container that outlived a disabled plugin") {
			t.Errorf("docker cp: %v", err)
		}
		return
	}
	wantFile(t, out, "changed\n")
}

// After the plugin was disabled by force it cannot reach the workspace of a running container.
// docker cp says so, in both directions and each time, and copies no other files.
func TestCopyAfterDisable(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t)
	s.e.disable(t)
	s.e.enable(t)
	for range 2 {
		for _, args := range [][]string{{"cp", s.worker.id + ":/w/README.md", "-"}, {"cp", "/etc/hostname", s.worker.id + ":/w/given"}} {
			if said := s.e.wantError(t, args...); !strings.Contains(said, "a container that outlived a disabled plugin") {
				t.Errorf("docker %q says %s", args, said)
			}
		}
	}
	if list := s.e.leases(t, "busy"); len(list) > 0 {
		t.Errorf("leases: %v", list)
	}
	s.wantUntouched(t)
	s.wantWhole(t)
	s.e.docker(t, "restart", "--time", "0", s.worker.id)
	same(t, "restarted", s.worker.sh(t, portrait), s.plain)
	s.worker.sh(t, work)
	s.e.checkOwnCopy(t, s.worker)
	s.finish(t)
}

// A lease whose container is gone and was never unmounted is released by force. That of a running
// container is not, nor does the engine's own Unmount, which comes later, change anything for it.
func TestForcedRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := shared(t), newRemote(t)
	at := fmt.Sprintf("/proc/%d/root/run/docker/plugins/repos.sock", e.pluginPID(t, 0))
	engine, admin, ctx := daemon.Dial(at), e.admin(t), t.Context()
	for _, mode := range modes {
		name := subject(t) + mode
		e.create(t, name, "repo="+r.url, "mode="+mode, "subject="+subject(t))
		if _, err := engine.Mount(ctx, name, "gone"); err != nil {
			t.Fatal(err)
		}
	}
	c := e.sleeper(t, mount(subject(t)+"private"))
	c.sh(t, work)
	wait.For(t, "the release", func() error { return admin.ReleaseLease(ctx, subject(t)+"private", "gone") })
	leases, err := admin.Leases(ctx, api.Filter{Volume: subject(t) + "private"})
	if err != nil || len(leases) != 1 {
		t.Fatalf("leases %+v, %v; want that of the container", leases, err)
	}
	// Its lease is no longer new, at the latest when the kernel is asked.
	wait.For(t, "the kernel's answer", func() error {
		err := admin.ReleaseLease(ctx, leases[0].Volume, leases[0].Holder)
		if err == nil {
			t.Fatal("the lease of a running container was released")
		}
		if !strings.Contains(err.Error(), "a container has the workspace") {
			return err
		}
		return nil
	})
	for _, mode := range modes[1:] { // a container shares the workspace, so the kernel can't tell whose lease it is
		name := subject(t) + mode
		c := e.sleeper(t, mount(name))
		if err := admin.ReleaseLease(ctx, name, "gone"); err == nil {
			t.Errorf("%s: a lease was released while a container has the workspace", mode)
		}
		e.docker(t, "rm", "--force", c.id)
		wait.For(t, mode+": the release", func() error { return admin.ReleaseLease(ctx, name, "gone") })
	}
	for _, mode := range modes { // the engine is late
		if err := engine.Unmount(ctx, subject(t)+mode, "gone"); err != nil {
			t.Error(err)
		}
	}
	if got := c.sh(t, proof); got != proofOutput {
		t.Errorf("the container has %q, want %q", got, proofOutput)
	}
	e.docker(t, "rm", "--force", c.id)
	for _, mode := range modes {
		e.docker(t, "volume", "rm", subject(t)+mode)
	}
}
