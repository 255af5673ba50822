// Package testdir creates directories for tests, in which overlays can be mounted. It also lists
// files and mounts, and unmounts.
package testdir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
	_ "github.com/helmdeck/repos/tests/environ"
)

// New creates a directory that everyone may read, on a filesystem that can hold an
// overlay's upper. Its name contains what. The end of the test unmounts everything
// below the directory and removes it.
func New(t testing.TB, what string) string {
	t.Helper()
	return NewIn(t, parent, what)
}

// parent is on a filesystem that can hold an overlay's upper. /tmp may be an overlay itself.
const parent = "/var/tmp"

// NewIn is New below an existing directory.
func NewIn(t testing.TB, parent, what string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "helmdeck-"+what+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		Unmount(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Unmount unmounts everything at a directory and below it, as the engine does with
// the mounts of a plugin that it disables.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	if err := detach(dir, func(overlay.Point) bool { return true }); err != nil {
		t.Error(err)
	}
}

// DetachBelow unmounts everything below dir, but not dir itself.
func DetachBelow(dir string) error {
	return detach(dir, func(p overlay.Point) bool { return p.Path != filepath.Clean(dir) })
}

func detach(dir string, which func(overlay.Point) bool) error {
	points, err := overlay.Mounts(dir)
	errs := []error{err}
	for _, p := range points {
		if !which(p) {
			continue
		}
		release, err := overlay.Detach(p.Path)
		if err == nil {
			err = release()
		}
		// One Detach may unmount another point too if mounts propagate.
		if !errors.Is(err, overlay.ErrNotMounted) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Features returns the kernel's overlay features on the filesystem that New uses.
func Features(t testing.TB) overlay.Features {
	t.Helper()
	f, err := features()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var features = sync.OnceValues(func() (overlay.Features, error) {
	dir, err := os.MkdirTemp(parent, "helmdeck-probe-")
	if err != nil {
		return overlay.Features{}, err
	}
	f, err := overlay.Probe(dir)
	return f, errors.Join(err, os.RemoveAll(dir))
})

// Mounts lists the mounts at a directory and below it, without the tmpfs that holds a
// plugin's mount points as long as its data directory is in use.
func Mounts(dir string) ([]overlay.Point, error) {
	points, err := overlay.Mounts(dir)
	return slices.DeleteFunc(points, func(p overlay.Point) bool {
		return p.Type == "tmpfs" && p.Source == "helmdeck-repos"
	}), err
}

// Refuse makes every rename into a directory fail with EXDEV until allow is called.
func Refuse(t *testing.T, dir string) (allow func()) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	allow = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(allow)
	return allow
}
