package look

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdisk"
)

// TestFullDisk checks that an inspection that finds the disk full has room made for it, in the name of
// the workspace's subject, and leaves nothing.
func TestFullDisk(t *testing.T) {
	disk := testdisk.Small(t, func(dir string) error { return testdisk.Ext4(dir, 64<<20) })
	if err := os.Chmod(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	filler, made := filepath.Join(disk, "filler"), 0
	w := newWorldWith(t, disk, func(_ context.Context, subject string, f func() error) error {
		err := f()
		if !giterror.NoSpace(err) {
			return err
		}
		if made++; subject != string(volume.DefaultSubject) {
			t.Errorf("room is made for %q", subject)
		}
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
		return f()
	})
	if err := os.WriteFile(filepath.Join(w.dir, "committed"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.git("add", "committed")
	w.git("commit", "-q", "-m", "one")

	for _, tt := range []struct {
		name string
		look func() error
	}{
		{"status", func() error {
			if s := w.status(); *s.Ahead != 1 {
				t.Errorf("%d ahead", *s.Ahead)
			}
			return nil
		}},
		{"diff", func() error {
			o, err := w.Diff(t.Context(), w.rec.ID, "", false)
			if err != nil {
				return err
			}
			defer o.Close()
			var patch strings.Builder
			if err := o.Write(&patch); err != nil || !strings.Contains(patch.String(), "+x") {
				t.Errorf("%v, the patch is\n%s", err, patch.String())
			}
			return nil
		}},
		{"archive", func() error {
			o, err := w.Archive(t.Context(), w.rec.ID, "", false)
			if err != nil {
				return err
			}
			defer o.Close()
			return o.Write(io.Discard)
		}},
	} {
		made = 0
		if err := testdisk.Fill(filler); err != nil {
			t.Fatal(err)
		}
		if err := tt.look(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if made > 1 || made == 0 && tt.name != "archive" { // an archive of few files is in memory
			t.Errorf("%s: room was made %d times", tt.name, made)
		}
		if err := os.RemoveAll(filler); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(disk, "quarantine"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
