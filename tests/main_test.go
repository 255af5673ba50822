// Package tests tries the product as its users have it: the real managed plugin, made by `make plugin`, in a real Docker
// engine that the tests start, with real containers, against a real git server over HTTP.
//
// Nothing of the host's own engine is touched: an engine of the tests has its own data, socket, containerd and no
// network of its own, all below one folder in /var/tmp, and what a killed run left there is cleaned up by the next.
// The scenarios on the shared engine run in parallel, each with a subject and repositories of its own; one that kills
// or stops something has an engine to itself. They need root, dockerd and what make needs installs, and fail without.
package tests

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
	flag.Parse()
	if !given("test.parallel") {
		// The scenarios wait for engines more than they compute.
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, "tests:", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if err := sharedEngine.close(); err != nil {
		fmt.Fprintln(os.Stderr, "tests: closing the shared engine:", err)
		code = 1
	}
	os.RemoveAll(scratch)
	os.Exit(code)
}

// given reports whether the command line has a flag.
func given(name string) (ok bool) {
	flag.Visit(func(f *flag.Flag) { ok = ok || f.Name == name })
	return ok
}

// prepare makes the folder of this run, or says what the machine lacks.
func prepare() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("run them as root: they start a Docker engine")
	}
	if err := dockerd.Choose(); err != nil {
		return err
	}
	for _, program := range []string{"dockerd", "docker", "containerd", "git", "busybox", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w (on Debian: docker.io, git, busybox-static, iproute2)", err)
		}
	}
	if err := sweep(); err != nil {
		return err
	}
	return os.MkdirAll(scratch, 0o755)
}

// patience is how long the tests wait for what must happen, on a loaded machine too.
const patience = dockerd.Patience

// eventually waits until check has nothing to complain about any more.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := dockerd.Poll(patience, check); err != nil {
		t.Fatalf("%s: still after %v: %v", what, patience, err)
	}
}

// subject is a name for the clones of one test, which no other has.
func subject(t *testing.T) string {
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	return strings.NewReplacer("/", "-", "_", "-", "#", "-").Replace(name)
}
