package caches

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// world is a plugin, and a repository from which volumes are made.
type world struct {
	*testing.T
	d      *daemon.Daemon
	remote *gitserver.Server
	prefix string // what a container's shell does before all else
	n      atomic.Int32
	open   atomic.Int32 // containers that have not ended
}

const repo = "r"

func newWorld(t *testing.T, changes ...gitserver.Change) *world {
	t.Helper()
	return newWorldOn(t, "", changes...)
}

// newWorldOn is newWorld with another data directory; "" is the default.
func newWorldOn(t *testing.T, data string, changes ...gitserver.Change) *world {
	t.Helper()
	w := &world{T: t, remote: testgit.Serve(t)}
	testgit.Generate(t, w.remote, repo, gitserver.Spec{Seed: 1, Files: 5, Commits: 1})
	w.commit("main", changes...)
	dir, err := os.MkdirTemp(scratch, "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for the user who fetches
		t.Fatal(err)
	}
	if w.d, err = daemon.Start(t, daemon.Config{
		Program: program, Dir: dir, Data: data, Args: []string{"-start-wait", "1ms"},
		Env: []string{"CHECKPOINT_TTL=0", "DEFAULT_OPTS=refresh=always"},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.d.Stop(), testdir.DetachBelow(dir), testdir.DetachBelow(w.d.DataDir())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", w.d.Log())
		}
	})
	return w
}

// commit adds a commit to a branch.
func (w *world) commit(branch string, changes ...gitserver.Change) {
	w.Helper()
	if len(changes) == 0 {
		return
	}
	if _, err := gitserver.Commit(w.remote.Path(repo), "refs/heads/"+branch, changes...); err != nil {
		w.Fatal(err)
	}
}

// container is a workspace with what runs in it.
type container struct {
	*world
	volume, dir string
}

// start mounts a new volume.
func (w *world) start(options ...string) container {
	w.Helper()
	c, err := w.mount(options...)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// mount is start for goroutines.
func (w *world) mount(options ...string) (container, error) {
	c := container{world: w, volume: fmt.Sprint("v", w.n.Add(1))}
	given := map[string]string{"repo": w.remote.URL(repo), "subject": "s"}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	var err error
	if err = w.d.Create(w.Context(), c.volume, given); err == nil {
		c.dir, err = w.d.Mount(w.Context(), c.volume, "1")
	}
	if err == nil {
		w.open.Add(1)
	}
	return c, err
}

// end unmounts the volume. What is new in its cache is published some time later.
func (c container) end() {
	c.Helper()
	if err := c.unmount(); err != nil {
		c.Fatal(err)
	}
}

// unmount is end for goroutines.
func (c container) unmount() error {
	err := errors.Join(c.d.Unmount(c.Context(), c.volume, "1"), c.d.Remove(c.Context(), c.volume))
	if err == nil {
		c.world.open.Add(-1)
	}
	return err
}

// files returns how many files and directories the cache has, while programs write to it.
func (c container) files() (n int) {
	// Errors are of files that a program has just removed.
	_ = filepath.WalkDir(filepath.Join(c.dir, ".git/hdcache"), func(string, fs.DirEntry, error) error {
		n++
		return nil
	})
	return n
}

// published waits until all containers that ended have published what is new.
func (w *world) published() {
	w.Helper()
	wait.For(w.T, "the workspaces to end", func() error {
		dirs, err := filepath.Glob(filepath.Join(w.d.DataDir(), "clones/*/*/workspaces/*"))
		return wait.Check(err == nil && len(dirs) <= int(w.open.Load()), "%v, %v", dirs, err)
	})
}

// inside makes a container of a process: the workspace is at /mnt, /tmp is empty, and nothing is seen of other
// workspaces. The process is the first of its own, so that all end with it.
const inside = `set -eu
mount --make-rprivate /
mount --rbind "$0" /mnt
mount -t tmpfs tmpfs /tmp
mount -t proc proc /proc
grep -oE ' /var/tmp/hd-[^ ]*/data/mnt/[^ ]*' /proc/self/mountinfo |
	while read -r dir; do umount -l "$dir" 2>/dev/null || :; done
ip link set lo up
export HOME=/tmp/home; mkdir $HOME; cd /mnt
HDCACHE=/mnt/.git/hdcache . /mnt/.git/hdcache/env
`

// command returns a process that runs a script in the container, which ends with ctx. One that is offline has a network
// of its own.
func (c container) command(ctx context.Context, offline bool, script string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.prefix+inside+script, c.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if offline {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", fmt.Sprintf("OFFLINE=%v", offline)}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// run runs a script, and returns its lines that begin with RESULT, and all that it prints.
func (c container) run(offline bool, script string, env ...string) (result, all string, err error) {
	cmd, out := c.command(c.Context(), offline, script, env...)
	err = cmd.Run()
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "RESULT ") {
			result += line
		}
	}
	return result, out.String(), err
}

// want runs a script, and checks its result.
func (c container) want(what string, offline bool, want, script string, env ...string) {
	c.Helper()
	if got, all, err := c.run(offline, script, env...); err != nil || got != want || want == "" {
		c.Errorf("%s: %v: got %q, want %q\n%s", what, err, got, want, all)
	}
}
