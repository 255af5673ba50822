// Package deb tests the Debian packages as a user has them: it builds them, and installs, upgrades, removes and purges
// them on a machine with a real systemd, dpkg and git.
//
// The machine is an overlay of this one's root directory with namespaces of its own, so the machine's own packages and
// services are not touched. The tests need root, Debian or a derivative, and systemd, which need not run.
package deb

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/environ"
)

// version is that of the packages in the tests: no release has it.
const version = "0.0.1-test"

// built is the directory with the packages.
var built string

func TestMain(m *testing.M) {
	flag.Parse()
	run := build
	if testing.Short() { // all tests are left out
		run = func(run func() int) (int, error) { return run(), nil }
	}
	code, err := run(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deb:", err)
		code = 1
	}
	os.Exit(code)
}

func build(run func() int) (int, error) {
	var err error
	if built, err = os.MkdirTemp("/var/tmp", "hd-deb-packages-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(built)
	if err := makePackages(built); err != nil {
		return 0, err
	}
	return run(), nil
}

// makePackages runs make deb for this machine's architecture, and moves the packages to dir.
func makePackages(dir string, env ...string) error {
	cmd := exec.Command("make", "-C", "../..", "deb", "VERSION="+version)
	cmd.Env = append(environ.Downloading(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make deb: %w\n%s", err, out)
	}
	made, err := filepath.Glob("../../build/deb/*_" + strings.Replace(version, "-", "~", 1) + "_*.deb")
	if err != nil || len(made) != 2 {
		return fmt.Errorf("make deb made %q, %v; want two packages", made, err)
	}
	out, err := exec.Command("mv", append(made, dir)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// packageFile returns the file of a package.
func packageFile(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(built, name+"_*.deb"))
	if err != nil || len(files) != 1 {
		t.Fatalf("package %s: %q, %v", name, files, err)
	}
	return files[0]
}
