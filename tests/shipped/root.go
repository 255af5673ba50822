package shipped

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// root is the plugin's root filesystem with what the engine mounts in it.
type root struct {
	dir    string
	mounts []string
}

// capabilities are the engine's for a container, with those that config.json asks for.
const capabilities = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service," +
	"+sys_chroot,+kill,+audit_write,+sys_admin,+dac_read_search"

// mountRoot puts the root filesystem together at dir. The program stands in for the one that it has, run is where the
// sockets are to be, disk is mounted as its data, and group may be nil.
func mountRoot(dir, filesystem, program, run, disk string, group *cgroup) (*root, error) {
	r := &root{dir: dir}
	for _, d := range []string{dir, run} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return r, err
		}
	}
	in := func(path string) string { return filepath.Join(dir, path) }
	steps := [][]string{
		{"mount", "--bind", filesystem, dir},
		{"mount", "--make-private", dir},
		{"mount", "--bind", program, in("usr/bin/helmdeck-repos")},
		{"mount", "-t", "proc", "proc", in("proc")},
		{"mount", "--bind", "/dev", in("dev")},
		{"mount", "--bind", "/sys", in("sys")},
		{"mount", "-o", "remount,bind,ro", in("sys")},
		{"mount", "-t", "tmpfs", "tmpfs", in("tmp")},
		{"mount", "--bind", run, in("run/docker/plugins")},
		{"mount", "--bind", disk, in("data")},
		// Shared as the engine's is, but not with the disk itself: every workspace would be mounted twice.
		{"mount", "--make-private", in("data")},
		{"mount", "--make-shared", in("data")},
	}
	if group != nil {
		// A container sees its own group as the whole tree.
		at := in("sys/fs/cgroup")
		if !group.v2 {
			steps = append(steps, []string{"mount", "-t", "tmpfs", "tmpfs", at}, []string{"mkdir", at + "/memory"})
			at += "/memory"
		}
		steps = append(steps, []string{"mount", "--bind", group.dir, at})
	}
	for _, step := range steps {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return r, fmt.Errorf("%s: %w: %s", strings.Join(step, " "), err, out)
		}
		if to := step[len(step)-1]; step[0] == "mount" && (len(r.mounts) == 0 || r.mounts[len(r.mounts)-1] != to) {
			r.mounts = append(r.mounts, to)
		}
	}
	return r, nil
}

// unmount takes all of it down again.
func (r *root) unmount() error {
	errs := []error{testdir.DetachBelow(filepath.Join(r.dir, "data"))}
	for i := len(r.mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(r.mounts[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", r.mounts[i], err))
		}
	}
	return errors.Join(errs...)
}
