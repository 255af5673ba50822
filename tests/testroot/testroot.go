// Package testroot gives tests the plugin's root filesystem, so that they run the git that is shipped and not only the
// machine's own: the two differ in version, and in the files that they find.
package testroot

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// archive is what make builds, below the module's root.
const archive = "build/rootfs.tar"

// New unpacks the root filesystem into a directory of its own, with the devices that the engine adds to it, and returns
// its path; the end of the test removes it. An archive that was not built fails the test.
//
// The path means the same within the root filesystem, when a process has that as its root, as it means without: a link
// there leads back to the root. So a test can make its files below the path, and name them to programs of both.
func New(t *testing.T) string {
	t.Helper()
	from := find(t)
	root := testdir.New(t, "rootfs")
	if out, err := exec.Command("tar", "-C", root, "--numeric-owner", "-xpf", from).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, minor := range map[string]int{"null": 3, "urandom": 9} {
		device := filepath.Join(root, "dev", name)
		if err := syscall.Mknod(device, syscall.S_IFCHR, 1<<8|minor); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(device, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(root)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(root, root)); err != nil {
		t.Fatal(err)
	}
	install(t, root)
	return root
}

// self is where the test's own program is in a root filesystem.
const self = "usr/bin/self"

// Self returns the path of the test's own program in a root filesystem that New has made; without one it is empty.
func Self(root string) string {
	if root == "" {
		return ""
	}
	return filepath.Join(root, self)
}

// install puts the test's own program into a root filesystem. A link would not be enough: it may be of another
// filesystem, or in a directory that is root's alone.
func install(t *testing.T, root string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(Self(root), program, 0o755); err != nil {
		t.Fatal(err)
	}
}

// find returns the path of the archive.
func find(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	path := filepath.Join(dir, archive)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the plugin's root filesystem is not built: run make plugin first: %v", err)
	}
	return path
}
