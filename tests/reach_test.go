package tests

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/wait"
)

// lostMounts is the error of a Mount whose mount would not reach the host.
const lostMounts = "the engine has lost this plugin's mounts, it starts anew: run it again"

// sever puts the plugin into the state after an engine's late handling of an earlier process: its
// /data is in a separate peer group, and the host has none of its mounts.
func (e *engine) sever(t *testing.T) {
	t.Helper()
	pid := e.pluginPID(t, 0)
	err := onThread(func() error {
		return inMountsOf(pid, func() error {
			return errors.Join(unix.Mount("", "/data", "", unix.MS_PRIVATE, ""), unix.Mount("", "/data", "", unix.MS_SHARED, ""))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	points := e.Data("mnt")
	for {
		mounts, err := dockerd.MountsBelow(points)
		if err != nil {
			t.Fatal(err)
		}
		if len(mounts) == 0 {
			return
		}
		if err := unix.Unmount(mounts[0], unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
}

// onThread calls f on a new thread that ends afterwards, so that f may move it to other namespaces.
func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // without an unlock, so that the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread() // the main thread never ends, and would stay in the namespace
			result <- onThread(f)
			return
		}
		result <- f()
	}()
	return <-result
}

// inMountsOf calls f in the mount namespace of a process. The thread stays there.
func inMountsOf(pid int, f func() error) error {
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return f()
}

// awaitOutput runs containers until one starts, and checks its output. A container whose run fails
// must not have started.
func (e *engine) awaitOutput(t *testing.T, what, mount, script, want string) {
	t.Helper()
	var out string
	wait.For(t, what, func() error {
		var err error
		if out, err = e.Try(shArgs(mount, script)...); err != nil && out != "" {
			t.Fatalf("%s: a container ran and failed: %v", what, err)
		}
		return err
	})
	same(t, what, out, want)
}

// The plugin's mounts no longer reach the host. No container starts on an empty directory, the
// plugin restarts and works again, running containers keep their files, and kept workspaces
// survive.
func TestLostMounts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	running := map[string]container{}
	for _, mode := range modes {
		e.create(t, mode, "repo="+r.url, "ref=main", "mode="+mode, "subject=reach")
		e.create(t, mode+"-idle", "repo="+r.url, "ref=main", "mode="+mode, "subject=reach")
		running[mode] = e.sleeper(t, mount(mode))
		running[mode].sh(t, work)
	}
	e.sh(t, mount("keep-idle"), "echo kept >kept")
	for _, first := range append([]string{"docker cp"}, modes...) { // first is the first request after the loss
		before := e.pluginPID(t, 0)
		e.sever(t)
		args := shArgs(mount(first+"-idle"), "true")
		if first == "docker cp" {
			args = []string{"cp", running["private"].id + ":/w/README.md", "-"}
		}
		if said := e.wantError(t, args...); !strings.Contains(said, lostMounts) {
			t.Errorf("%s: the error of the first mount: %s", first, said)
		}
		e.pluginPID(t, before)
		e.awaitOutput(t, first+": private", mount("private-idle"), portrait, want)
		e.awaitOutput(t, first+": shared", mount("shared-idle"), portrait, want)
		e.awaitOutput(t, first+": keep", mount("keep-idle"), "cat kept", "kept")
		var copies sync.WaitGroup
		for _, mode := range modes {
			if got := running[mode].sh(t, proof); got != proofOutput {
				t.Errorf("%s: the running container: got %q, want %q", mode, got, proofOutput)
			}
			copies.Go(func() { // a running container's workspace is not mounted a second time
				if _, err := e.Try("cp", running[mode].id+":/w/README.md", "-"); err == nil || !strings.Contains(err.Error(), "a container that outlived a disabled plugin") {
					t.Errorf("%s: docker cp: %v", mode, err)
				}
			})
		}
		copies.Wait()
		for _, mode := range []string{"private", "private-idle", "shared-idle", "keep-idle"} {
			if n := len(e.status(t, mode)["leases"].([]any)); n > 0 {
				t.Errorf("%s: volume %s has %d leases", first, mode, n)
			}
		}
	}
	for _, mode := range modes {
		running[mode].remove(t)
	}
	e.awaitOutput(t, "private, at the end", mount("private"), portrait, want)
	e.awaitOutput(t, "shared, at the end", mount("shared"), portrait, want)
	e.awaitOutput(t, "keep, at the end", mount("keep"), proof, proofOutput)
	for _, mode := range modes {
		e.docker(t, "volume", "rm", mode, mode+"-idle")
	}
	e.awaitReclaimed(t, "reach")
	e.awaitUnmounted(t)
	e.awaitEmpty(t, "trash")
	e.awaitNoChildren(t)
}

// The engine unmounts the plugin's mounts while both are in one peer group. The plugin notices this
// without a Mount.
func TestUnmountedUnderPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t)
	pid := s.e.pluginPID(t, 0)
	if err := unix.Unmount(s.e.Data("mnt"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, pid)
	s.wantUntouched(t)
	s.e.awaitOutput(t, "after the restart", mount("busy"), portrait, s.plain)
	s.wantWhole(t)
	s.wantUntouched(t)
	s.finish(t)
}
