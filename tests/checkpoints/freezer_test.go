package checkpoints

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/wait"
)

// freezer is a control group of version 1 or 2, which an engine pauses in the same way.
type freezer struct {
	*testing.T
	dir string
	v2  bool
}

func newFreezer(t *testing.T) *freezer {
	t.Helper()
	f := &freezer{T: t}
	const root = "/sys/fs/cgroup"
	parent := root + "/freezer"
	if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
		parent, f.v2 = root, true
	}
	var err error
	if f.dir, err = os.MkdirTemp(parent, "helmdeck-checkpoints-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.kill()
		if err := wait.Until(t, func() error { return unix.Rmdir(f.dir) }); err != nil {
			t.Error(err)
		}
	})
	return f
}

// command returns a program in the group, as a user, in a namespace of mounts that has a workspace at /mnt, as a container
// has it. What it prints goes to out.
func (f *freezer) command(workspace string, uid, gid int, args ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	script := `echo 0 >"$0"; mount --make-rslave /; mount --bind "$1" /mnt; cd /mnt; shift; exec "$@"`
	if uid != 0 {
		args = append([]string{"setpriv", fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", gid), "--clear-groups"}, args...)
	}
	cmd = exec.Command("sh", append([]string{"-ec", script, filepath.Join(f.dir, "cgroup.procs"), workspace}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
	out = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// freeze pauses all processes, and returns when they are paused.
func (f *freezer) freeze() { f.set("FROZEN", "1") }
func (f *freezer) thaw()   { f.set("THAWED", "0") }

func (f *freezer) set(state, number string) {
	f.Helper()
	if err := wait.Until(f, func() error {
		if !f.v2 {
			name := filepath.Join(f.dir, "freezer.state")
			err := os.WriteFile(name, []byte(state), 0)
			got, err2 := os.ReadFile(name)
			if err = errors.Join(err, err2); err == nil && strings.TrimSpace(string(got)) != state {
				err = fmt.Errorf("the group is %s", got)
			}
			return err
		}
		if err := os.WriteFile(filepath.Join(f.dir, "cgroup.freeze"), []byte(number), 0); err != nil {
			return err
		}
		events, err := os.ReadFile(filepath.Join(f.dir, "cgroup.events"))
		if err == nil && !strings.Contains(string(events), "frozen "+number) {
			err = fmt.Errorf("the group is %s", events)
		}
		return err
	}); err != nil {
		f.Fatal(err)
	}
}

// kill kills all processes, also paused ones: these do nothing more.
func (f *freezer) kill() {
	f.Helper()
	if err := wait.Until(f, func() error {
		procs, err := os.ReadFile(filepath.Join(f.dir, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(procs)) {
			var n int
			fmt.Sscan(pid, &n)
			_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
		}
		f.thaw()
		if err == nil && len(procs) > 0 {
			err = fmt.Errorf("processes %q are left", procs)
		}
		return err
	}); err != nil {
		f.Error(err)
	}
}
