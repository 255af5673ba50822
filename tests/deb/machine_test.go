package deb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// machine is a booted machine: see boot.sh.
type machine struct {
	t   *testing.T
	dir string
	pid int // of its systemd
}

// boot boots a machine, which ends with the test.
func boot(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: testdir.New(t, "deb")}
	for _, dir := range []string{"data", "upper/debs", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	kind, hierarchy := "cgroup", "/sys/fs/cgroup/systemd"
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		kind, hierarchy = "cgroup2", "/sys/fs/cgroup"
	}
	group := filepath.Join(hierarchy, "hd-deb-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("boot.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script, m.dir, group, kind)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.pid = cmd.Process.Pid
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := m.try("journalctl", "--no-pager", "-u", "helmdeck-repos.*", "-n", "40")
			t.Logf("the service's log:\n%s", log)
		}
		cmd.Process.Kill() // all other processes of the machine end with it
		cmd.Wait()
		if err := removeGroup(t, group); err != nil {
			t.Error(err)
		}
	})
	if err := wait.Until(t, func() error {
		if unix.Kill(m.pid, 0) != nil {
			return wait.Final(fmt.Errorf("the machine has ended"))
		}
		_, err := m.try("systemctl", "is-active", "basic.target")
		return err
	}); err != nil {
		t.Fatalf("boot: %v\n%s", err, output.String())
	}
	return m
}

// removeGroup removes a control group with all below it, when its processes have ended.
func removeGroup(l wait.Limit, group string) error {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(groups)
	return wait.Until(l, func() error {
		for _, g := range groups {
			if err := os.Remove(g); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		return nil
	})
}

// try runs a command on the machine as root, and returns its output.
func (m *machine) try(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--root", "--wd"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%q: %w\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// run runs a command that must succeed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// path returns where this machine's processes find a file of the machine.
func (m *machine) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.pid), "root", name)
}

// install copies a package to the machine and installs it.
func (m *machine) install(file string) string {
	m.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path("/debs/package.deb"), data, 0o644); err != nil {
		m.t.Fatal(err)
	}
	return m.run("dpkg", "--install", "--force-confdef", "/debs/package.deb")
}
