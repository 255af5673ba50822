package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/wait"
)

// host starts a process in a mount namespace of its own. Its mounts are peers of the mounts here, as
// the engine's mounts are peers of a plugin's. end runs script there, then ends the namespace without
// an unmount.
func host(t *testing.T, script string) (end func()) {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", "echo && cat && "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// managed returns places for a managed plugin whose data directory is a shared mount.
func managed(t *testing.T) places {
	t.Helper()
	dir := scratch(t)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, how := range []uintptr{unix.MS_BIND, unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount(data, data, "", how, ""); err != nil {
			t.Fatal(err)
		}
	}
	return places{data: data, socket: filepath.Join(dir, "repos.sock"), git: "/usr/bin/git", fetchUID: fetchUID, managed: true}
}

// TestUnreachedStart checks that a start whose mounts would reach no container ends at once, and leaves
// the socket to the next start. Without an engine, the same start works.
//
// Not parallel: the mounts would reach a mount namespace that another test makes, until that has made its copy private.
func TestUnreachedStart(t *testing.T) {
	at := managed(t)
	log := logrus.New()
	log.SetOutput(io.Discard)
	if err := run(t.Context(), at, environment(), log); !errors.Is(err, errUnreached) || !errors.Is(err, errAnew) {
		t.Errorf("run: %v", err)
	}
	if _, err := os.Lstat(at.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v, want it missing", err)
	}
	at.managed = false
	r, err := newReach(at, log, nil)
	if err != nil || r.check() != nil || r.lost != nil {
		t.Errorf("a process on the host: %+v, %v", r, err)
	}
}

// TestLostReach checks that a Mount fails and the plugin ends if mounts reach no container. The plugin
// also ends if the engine unmounts the directory of its mounts.
//
// Not parallel: the mounts would reach a mount namespace that another test makes, until that has made its copy private.
func TestLostReach(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	at := managed(t)
	end := host(t, "true")
	r, err := newReach(at, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err != nil {
		t.Errorf("with an engine: %v", err)
	}
	end()
	// A mount namespace that somebody else makes at this moment has the mount too, until it has made its copy private.
	wait.For(t, "the loss of the engine", func() error { err = r.check(); return wait.Check(err != nil, "it is reached") })
	if !errors.Is(err, errLost) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("without an engine: %v", err)
	}
	<-r.lost
	err = serve(t.Context(), log, r.lost, nil, nil, nil)
	if !errors.Is(err, errUnreached) {
		t.Errorf("serve: %v", err)
	}

	at = managed(t)
	end = host(t, "umount -l "+overlay.PointsDir(at.data))
	if r, err = newReach(at, log, nil); err != nil {
		t.Fatal(err)
	}
	end()
	wait.For(t, "the end of the tmpfs to be noticed", func() error {
		select {
		case <-r.lost:
			return nil
		default:
			return errors.New("it is not")
		}
	})
}
