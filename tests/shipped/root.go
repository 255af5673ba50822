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

// root is the plugin's root filesystem with the mounts that the engine adds to it.
type root struct {
	dir    string
	mounts []string
}

// capabilities are those that the engine gives every container, and those that config.json asks
// for.
const capabilities = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service," +
	"+sys_chroot,+kill,+audit_write,+sys_admin,+dac_read_search"

// mountRoot mounts the root filesystem at dir. program covers the program in it, run becomes the
// directory of the sockets, and disk becomes /data. group may be nil.
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
		// Shared, as the engine's mount is, but not with the disk itself, because then every
		// workspace would be mounted twice.
		{"mount", "--make-private", in("data")},
		{"mount", "--make-shared", in("data")},
	}
	if group != nil {
		// In a container its own group is the root of the tree.
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

// unmount unmounts everything that mountRoot mounted.
func (r *root) unmount() error {
	errs := []error{testdir.DetachBelow(filepath.Join(r.dir, "data"))}
	for i := len(r.mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(r.mounts[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", r.mounts[i], err))
		}
	}
	return errors.Join(errs...)
}
