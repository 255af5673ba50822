// Package podman tests the plugin's program as a service of the host, with Debian's Podman: the
// real podman, conmon and runc with their own data, and the settings of the unit file in the Debian
// package.
//
// The tests do not touch the host's own Podman. They need root, runc (from Debian's docker
// packages) and the programs that `make needs` unpacks into build/tools.
package podman

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/tests/daemon"
)

var scratch, program string

func TestMain(m *testing.M) {
	checkout.ServeJob()
	daemon.Main("podman", nil, func(dir, built string) (int, error) {
		scratch, program = dir, built
		before := made()
		code := m.Run()
		for _, path := range made() {
			if !slices.Contains(before, path) {
				if err := os.Remove(path); err != nil { // not what has something in it
					return code, err
				}
			}
		}
		return code, nil
	})
}

// made returns the directories that exist of those that Podman, conmon and runc make on the machine at
// their first use and leave there, the inner ones first.
func made() (paths []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/*/libpod_parent/conmon", "/sys/fs/cgroup/*/libpod_parent", "/run/runc"} {
		found, _ := filepath.Glob(pattern) // the patterns are right
		paths = append(paths, found...)
	}
	return paths
}
