package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

func TestReserve(t *testing.T) {
	testdisk.OnEach(t, func(t *testing.T, dir string) {
		path, fill := filepath.Join(dir, "reserve"), filepath.Join(dir, "fill")
		if err := disk.NewReserve(path).Fill(); err != nil {
			t.Fatal(err)
		}
		if err := testdisk.Fill(fill); err != nil {
			t.Fatal(err)
		}
		r := disk.NewReserve(path) // after a restart
		mkdir := func(name string) error {
			return r.Retry(func() error { return os.MkdirAll(filepath.Join(dir, name, "a/b/c/d/e/f/g/h"), 0o700) })
		}
		if err := mkdir("one"); err != nil {
			t.Errorf("with the reserve: %v", err)
		}
		if err := r.Fill(); err != nil {
			t.Errorf("no room to fill it again: %v, want nothing said", err)
		}
		refused := errors.New("refused")
		if err := r.Retry(func() error { return refused }); !errors.Is(err, refused) {
			t.Errorf("another error: %v", err)
		}
		if err := os.Remove(fill); err != nil {
			t.Fatal(err)
		}
		// xfs frees deleted blocks a moment later.
		wait.For(t, "the reserve to be filled again", func() error {
			err := r.Fill()
			s, merr := disk.Measure(t.Context(), path)
			return wait.Check(err == nil && merr == nil && s.Bytes >= disk.ReserveFor(dir), "%+v, %v, %v", s, err, merr)
		})
		if err := testdisk.Fill(fill); err != nil {
			t.Fatal(err)
		}
		if err := mkdir("two"); err != nil {
			t.Errorf("filled again: %v", err)
		}
	})
	var none *disk.Reserve
	if err := none.Retry(func() error { return unix.ENOSPC }); !errors.Is(err, unix.ENOSPC) || none.Fill() != nil {
		t.Errorf("none: %v", err)
	}
}
