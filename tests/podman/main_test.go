// Package podman tests the plugin's program as a service of the host, with Debian's Podman: the
// real podman, conmon and runc with their own data, and the settings of the unit file in the Debian
// package.
//
// The tests do not touch the host's own Podman. They need root, runc (from Debian's docker
// packages) and the programs that `make needs` unpacks into build/tools.
package podman

import (
	"testing"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/tests/daemon"
)

var scratch, program string

func TestMain(m *testing.M) {
	checkout.ServeJob()
	daemon.Main("podman", nil, func(dir, built string) (int, error) {
		scratch, program = dir, built
		return m.Run(), nil
	})
}
