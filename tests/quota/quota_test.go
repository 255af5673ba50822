//go:build !quota

package quota

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/environ"
)

var (
	full = flag.Bool("full", false, "test all, for some minutes")
	only = flag.String("only", "", "a regular expression for the tests in the virtual machine")
)

// TestQuota runs the tests in the virtual machine. They are compiled here, because there is no compiler there.
func TestQuota(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	dir, err := os.MkdirTemp("/var/tmp", "hd-quota-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if _, err := daemon.Build(dir); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-tags", "quota", "-o", filepath.Join(dir, "tests"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests: %v\n%s", err, out)
	}
	arguments := []string{dir, "-test.v", "-test.timeout=30m"}
	switch {
	case *only != "":
		arguments = append(arguments, "-test.run="+*only)
	case !*full:
		arguments = append(arguments, "-test.short", "-test.run=^(TestModes|TestCheckpoint|TestCopied)$")
	}
	if !*full {
		bootWith(t, "xfs ext4", arguments)
		return
	}
	for _, kind := range []string{"xfs", "ext4"} { // side by side, because each waits for its emulated processors
		own := filepath.Join(dir, kind)
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"tests", "helmdeck-repos"} {
			if err := os.Link(filepath.Join(dir, name), filepath.Join(own, name)); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bootWith(t, kind, append([]string{own}, arguments[1:]...))
		})
	}
}

// bootWith runs the tests in a virtual machine, on these filesystems.
func bootWith(t *testing.T, kinds string, arguments []string) {
	var log bytes.Buffer
	boot := exec.Command("./boot", arguments...)
	boot.Env = append(environ.Downloading(), "KINDS="+kinds)
	boot.Stdout, boot.Stderr = &log, &log
	if testing.Verbose() {
		boot.Stdout, boot.Stderr = io.MultiWriter(os.Stdout, &log), os.Stderr
	}
	err := boot.Run()
	for line := range strings.Lines(log.String()) {
		if strings.HasPrefix(line, "quota: ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
}
