// Package tests tests the plugin as its users run it: the real managed plugin, made by `make
// plugin`, in a real Docker engine that the tests start, with real containers and a real git server
// over HTTP.
//
// The tests do not touch the host's own engine. Their engines have their own data, socket and
// containerd, and share the network namespace of the tests, which is not the machine's. All files
// are below one directory in /var/tmp; if a run is killed, the next run removes its files. Tests on
// the shared engine run in parallel, each with its own subject and repositories. A test that kills
// or stops something has its own engine. The tests need root, dockerd and the programs that make
// needs installs, and fail without them.
package tests

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/built"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/dockerd"
)

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
	if err := daemon.DoubleParallel(); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := sharedEngine.close(); err != nil {
		fmt.Fprintln(os.Stderr, "tests: closing the shared engine:", err)
		code = 1
	}
	os.RemoveAll(scratch)
	os.Exit(code)
}

// prepare creates the scratch directory. It returns an error if the machine lacks something that
// the tests need.
func prepare() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("run the tests as root: they start a Docker engine")
	}
	if err := dockerd.Isolate(); err != nil {
		return err
	}
	if err := dockerd.Choose(); err != nil {
		return err
	}
	outputs := []string{built.Command}
	if os.Getenv("PLUGIN_DIR") == "" {
		outputs = append(outputs, built.Plugin)
	}
	if err := built.Check(outputs...); err != nil {
		return err
	}
	for _, program := range []string{"dockerd", "docker", "containerd", "git", "busybox", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w (on Debian: docker.io, git, busybox-static, iproute2)", err)
		}
	}
	if err := removeLeftovers(); err != nil {
		return err
	}
	return os.MkdirAll(scratch, 0o755)
}

// subject returns a name for the subject of one test, which no other test uses.
func subject(t *testing.T) string {
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	return strings.NewReplacer("/", "-", "_", "-", "#", "-").Replace(name)
}
