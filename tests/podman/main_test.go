// Package podman tries the plugin's program as a service of the host, with Debian's Podman: the real podman, conmon and
// runc on data of their own, with the settings of the unit file that users copy.
//
// Nothing of the host's own Podman is touched. It needs root, runc (of Debian's docker packages) and what `make needs`
// unpacks into build/tools.
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
