package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestUnmount checks that a process keeps the mount, that mounts in it go too, and that the
// copy of a container does not count.
func TestUnmount(t *testing.T) {
	p := newPlugin(t)
	host := unshare(t, "unchanged")
	cache := filepath.Join(p.dir, "cache")
	mkdir(t, cache)
	write(t, filepath.Join(cache, "entry"), "x")
	bind := func() {
		t.Helper()
		if err := Bind(cache, p.target, "dir", false); err != nil {
			t.Fatal(err)
		}
	}
	busy := func(what string) {
		t.Helper()
		if err := Unmount(p.target); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v, want %v", what, err, ErrBusy)
		}
		if mounted, err := Mounted(p.target); err != nil || !mounted {
			t.Fatalf("%s: mounted %v, %v", what, mounted, err)
		}
	}
	bind()
	for _, inside := range []string{"file", "dir/entry"} {
		f, err := os.Open(filepath.Join(p.target, inside))
		if err != nil {
			t.Fatal(err)
		}
		busy("with an open file: " + inside)
		f.Close()
		if inside == "file" {
			bind() // it was unmounted
		}
	}
	container := unshare(t, "slave")
	at := t.TempDir()
	container.run("mount --bind " + p.target + " " + at + " && umount -l " + p.points)
	if err := Unmount(p.target); err != nil {
		t.Errorf("with the copy of a container: %v", err)
	}
	if got := container.run("cat " + filepath.Join(at, "file")); got != "lower" {
		t.Errorf("the container has %q", got)
	}
	host.run("! grep -q " + p.target + " /proc/self/mountinfo")
	if err := Unmount(p.target); !errors.Is(err, ErrNotMounted) {
		t.Errorf("again: %v, want %v", err, ErrNotMounted)
	}
	if err := Unmount(filepath.Join(p.points, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

// TestUnmountLeavesLinks checks that a link in place of a directory leads to no other mount.
func TestUnmountLeavesLinks(t *testing.T) {
	p := newPlugin(t)
	other, cache := filepath.Join(p.dir, "other"), filepath.Join(p.dir, "cache")
	mkdir(t, filepath.Join(other, "sub"), cache, filepath.Join(p.target, "a", "sub"))
	if err := Bind(cache, p.target, "a/sub", false); err != nil {
		t.Fatal(err)
	}
	// A rename moves what is mounted along, as long as no mount point is renamed itself.
	if err := errors.Join(os.Rename(filepath.Join(p.target, "a"), filepath.Join(p.target, "b")), os.Symlink(other, filepath.Join(p.target, "a"))); err != nil {
		t.Fatal(err)
	}
	if err := Unmount(p.target); err != nil {
		t.Error(err)
	}
	if mounted, err := Mounted(p.target); err != nil || mounted {
		t.Errorf("mounted: %v, %v", mounted, err)
	}
}
