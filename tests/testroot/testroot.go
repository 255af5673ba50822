// Package testroot gives tests the plugin's root filesystem, so that they run the shipped git and
// not only the machine's own. The two differ in version and in the files that they find.
package testroot

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// archive is the root filesystem that make builds, relative to the module's root.
const archive = "build/rootfs-" + runtime.GOARCH + ".tar"

// New unpacks the root filesystem into a new directory, adds the devices that the engine adds, and
// returns the directory's path. The end of the test removes it. If make has not built the archive,
// the test fails.
//
// The path also works for a process that has the directory as its root, because a link in it leads
// back to the root. So a test can make files below the path and pass the same names to programs
// inside and outside.
func New(t *testing.T) string {
	t.Helper()
	from := archivePath(t)
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
	copySelf(t, root)
	return root
}

// self is the path of the test's own program in a root filesystem.
const self = "usr/bin/self"

// Self returns the path of the test's own program in a root filesystem that New made. If root is
// empty, so is the path.
func Self(root string) string {
	if root == "" {
		return ""
	}
	return filepath.Join(root, self)
}

// copySelf copies the test's own program into a root filesystem. A hard link is not possible from
// another filesystem, and a symbolic link may lead to a directory that only root can enter.
func copySelf(t *testing.T, root string) {
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

// archivePath returns the path of the archive.
func archivePath(t *testing.T) string {
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
