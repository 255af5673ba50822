package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func marked(t *testing.T, dir string) bool {
	t.Helper()
	is, err := Marked(dir)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// TestMarkOfCopies: a copy has the mark if and only if it has the attributes of overlayfs.
func TestMarkOfCopies(t *testing.T) {
	t.Parallel()
	s := newSpec(t)
	dir := filepath.Join(filepath.Dir(s.Upper), "marked")
	mkdir(t, dir)
	if marked(t, dir) {
		t.Error("a new directory is marked")
	}
	if err := Mark(dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(dir, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	for i, how := range []string{
		`cp -r "$0" "$1"`, `cp -a "$0" "$1"`, `cp -a --no-preserve=xattr "$0" "$1"`, `cp -R --preserve=all "$0" "$1"`,
		`mkdir "$1"; tar -cC "$0" . | tar -xC "$1"`,
		`mkdir "$1"; tar --xattrs --xattrs-include='*' -cC "$0" . | tar --xattrs --xattrs-include='*' -xC "$1"`,
		`mkdir "$1"; tar --xattrs --xattrs-include='*' -cC "$0" . | tar --xattrs --xattrs-include='*' --xattrs-exclude='trusted.overlay.*' -xC "$1"`,
	} {
		copied := filepath.Join(filepath.Dir(s.Upper), fmt.Sprint("copy", i))
		if out, err := exec.Command("sh", "-c", how, dir, copied).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", how, err, out)
		}
		_, err := unix.Getxattr(copied, "trusted.overlay.opaque", nil)
		if got, want := marked(t, copied), err == nil; got != want {
			t.Errorf("%s: marked is %v, want %v", how, got, want)
		}
	}
	if _, err := Marked(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestMarkIsHidden: whoever writes to an overlay, with all capabilities, neither sees nor changes the mark
// of its upper and of its layers.
func TestMarkIsHidden(t *testing.T) {
	t.Parallel()
	s := newSpec(t)
	for _, dir := range []string{s.Upper, s.Lower[0]} {
		if err := Mark(dir); err != nil {
			t.Fatal(err)
		}
	}
	mustMount(t, s)
	if n, err := unix.Getxattr(s.Target, mark, nil); err == nil {
		t.Errorf("the mark is seen: %d bytes", n)
	}
	list := make([]byte, 1<<10)
	if n, err := unix.Listxattr(s.Target, list); err != nil || strings.Contains(string(list[:n]), "helmdeck") {
		t.Errorf("list: %q, %v", list[:n], err)
	}
	if err := unix.Removexattr(s.Target, mark); err == nil {
		t.Error("the mark is removed")
	}
	_ = unix.Setxattr(s.Target, mark, []byte("other"), 0) // newer kernels store it under another name
	if err := unix.Setxattr(s.Target, "trusted.other", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(s.Target, "new"))
	_ = unix.Setxattr(filepath.Join(s.Target, "new"), mark, []byte("y"), 0)
	for dir, want := range map[string]bool{s.Upper: true, s.Lower[0]: true, filepath.Join(s.Upper, "new"): false} {
		if got := marked(t, dir); got != want {
			t.Errorf("%s: marked is %v, want %v", filepath.Base(dir), got, want)
		}
	}
	value := make([]byte, 8)
	if n, err := unix.Getxattr(s.Upper, mark, value); err != nil || string(value[:n]) != "y" {
		t.Errorf("the mark of the upper is %q, %v", value[:n], err)
	}
}
