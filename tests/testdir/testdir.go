// Package testdir gives tests directories in which overlays can be mounted, and
// the patience that what happens there takes on a loaded machine.
package testdir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
)

// New returns a directory that everyone may read, on a filesystem that can be an
// overlay's upper; what says whose it is, in its name. At the end of the test what
// is mounted there is taken down, and it is removed.
func New(t testing.TB, what string) string {
	t.Helper()
	return NewIn(t, parent, what)
}

// parent is on a disk that can be an overlay's upper, which /tmp may not be.
const parent = "/var/tmp"

// NewIn is New below a directory that is there.
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

// Unmount takes down all mounts below a directory, as the engine does below a
// plugin that it disables.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	if err := detach(dir, func(overlay.Point) bool { return true }); err != nil {
		t.Error(err)
	}
}

// DetachBelow is Unmount but for what is mounted at dir itself.
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
		// One Detach may take another mount along, where mounts propagate.
		if !errors.Is(err, overlay.ErrNotMounted) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Features are those of the kernel on the disk of the directories.
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

// Mounts lists what is mounted at a directory or below it, but for the tmpfs that a
// plugin has for its mount points as long as its data directory is in use.
func Mounts(dir string) ([]overlay.Point, error) {
	points, err := overlay.Mounts(dir)
	return slices.DeleteFunc(points, func(p overlay.Point) bool {
		return p.Type == "tmpfs" && p.Source == "helmdeck-repos"
	}), err
}

// Eventually polls until done says so, and fails the test after two minutes.
func Eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Refuse has every rename into a directory fail with EXDEV until allow is called.
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
