package overlay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

// TestBusyOnFullDisk checks that Busy is right on a disk without a free block.
func TestBusyOnFullDisk(t *testing.T) {
	testdisk.OnEach(t, func(t *testing.T, dir string) {
		in := func(name string) string { return filepath.Join(dir, name) }
		dirs := append([]string{in("lower"), in("upper"), in("work"), in("tree")}, overlay.BusyDirs(in("scratch"))...)
		for _, dir := range dirs {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(
			overlay.Mount(overlay.Spec{Lower: []string{in("lower")}, Upper: in("upper"), Work: in("work"), Target: in("tree"), Volatile: true}),
			testdisk.Fill(in("fill")))
		if err != nil {
			t.Fatal(err)
		}
		if busy, err := overlay.Busy(in("upper"), in("scratch")); !busy || err != nil {
			t.Errorf("mounted: busy %v, %v", busy, err)
		}
		release, err := overlay.Detach(in("tree"))
		if err != nil {
			t.Fatal(err)
		}
		if busy, err := overlay.Busy(in("upper"), in("scratch")); !busy || err != nil {
			t.Errorf("detached: busy %v, %v", busy, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		// A process that forks has a copy of the mount for a moment.
		wait.For(t, "the upper to be free", func() error {
			busy, err := overlay.Busy(in("upper"), in("scratch"))
			if err != nil {
				t.Fatal(err)
			}
			return wait.Check(!busy, "it is busy")
		})
	})
}
