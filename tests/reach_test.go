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
)

// lostMounts is what a Mount says whose mount would reach nobody.
const lostMounts = "the engine has lost this plugin's mounts, it starts anew: run it again"

// sever brings the plugin into the state that an engine's late handling of an earlier process makes: its /data is in a peer
// group of its own, and the host has nothing of what it has mounted.
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

// onThread calls f on a thread that nothing else runs on, before or after: f may take it to other namespaces.
func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread() // but the main one does not end, and would stay in the namespace
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

// right runs containers until one starts, and checks that it prints what is wanted. Those before must not have started.
func (e *engine) right(t *testing.T, what, mount, script, want string) {
	t.Helper()
	var out string
	eventually(t, what, func() error {
		var err error
		if out, err = e.Try(shArgs(mount, script)...); err != nil && out != "" {
			t.Fatalf("%s: a container ran and failed: %v", what, err)
		}
		return err
	})
	same(t, what, out, want)
}

// The plugin's mounts reach nobody any more: no container starts on an empty directory, the plugin starts anew and
// works, what runs goes on, and what a volume keeps is there.
func TestLostMounts(t *testing.T) {
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
	for _, first := range append([]string{"docker cp"}, modes...) { // what notices
		before := e.pluginPID(t, 0)
		e.sever(t)
		args := shArgs(mount(first+"-idle"), "true")
		if first == "docker cp" {
			args = []string{"cp", running["private"].id + ":/w/README.md", "-"}
		}
		if said := e.refused(t, args...); !strings.Contains(said, lostMounts) {
			t.Errorf("%s: the first mount says %s", first, said)
		}
		e.pluginPID(t, before)
		e.right(t, first+": private", mount("private-idle"), portrait, want)
		e.right(t, first+": shared", mount("shared-idle"), portrait, want)
		e.right(t, first+": keep", mount("keep-idle"), "cat kept", "kept")
		var copies sync.WaitGroup
		for _, mode := range modes {
			if got := running[mode].sh(t, proof); got != shown {
				t.Errorf("%s: the running container: got %q, want %q", mode, got, shown)
			}
			copies.Go(func() { // nobody gets what it has a second time
				if _, err := e.Try("cp", running[mode].id+":/w/README.md", "-"); err == nil || !strings.Contains(err.Error(), "a container that outlived a disabled plugin") {
					t.Errorf("%s: docker cp says %v", mode, err)
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
	e.right(t, "private, at last", mount("private"), portrait, want)
	e.right(t, "shared, at last", mount("shared"), portrait, want)
	e.right(t, "keep, at last", mount("keep"), proof, shown)
	for _, mode := range modes {
		e.docker(t, "volume", "rm", mode, mode+"-idle")
	}
	e.reclaimed(t, "reach")
	e.unmounted(t)
	e.emptied(t, "trash")
	e.alone(t)
}

// The engine unmounts what is mounted under the plugin while the two are peers: the plugin notices without a Mount.
func TestUnmountedUnderPlugin(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pid := s.e.pluginPID(t, 0)
	if err := unix.Unmount(s.e.Data("mnt"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, pid)
	s.untouched(t)
	s.e.right(t, "after it", mount("busy"), portrait, s.plain)
	s.whole(t)
	s.untouched(t)
	s.clean(t)
}
