package testdisk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

func TestFill(t *testing.T) {
	for _, fs := range Filesystems {
		t.Run(fs.Name, func(t *testing.T) {
			dir := Small(t, fs.Make)
			if err := Fill(filepath.Join(dir, "fill")); err != nil {
				t.Fatal(err)
			}
			if s, err := disk.SpaceOf(dir); err != nil || s.Free.Bytes > 1<<20 {
				t.Errorf("%d bytes are free, %v", s.Free.Bytes, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "one more"), make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("write to a full disk: %v, want ENOSPC", err)
			}
			if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "after"), make([]byte, 1<<20), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
}
