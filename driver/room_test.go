package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

// TestMountWithoutInodes checks that a Mount that finds all layers built, but no inode for its
// workspace, calls MakeRoom once. If that fails, the error says what is missing.
func TestMountWithoutInodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.core.Close()
	dir := filepath.Join(testdir.New(t, "driver"), "disk")
	if err := testdisk.Ext4(dir, 64<<20, "-N", "2048"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testdisk.Eject(t, dir); err != nil {
			t.Error(err)
		}
	})
	root, fill := filepath.Join(dir, "data"), filepath.Join(dir, "fill")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(fill, 0o755)); err != nil {
		t.Fatal(err)
	}
	asked := 0
	held := errors.New("10 inodes are missing; volume x holds them")
	makeRoom := func() error { return held }
	w.core.MakeRoom = func(context.Context, string, disk.Size) error {
		asked++
		return makeRoom()
	}
	w.start(root)
	t.Cleanup(w.core.Close) // before the disk is ejected
	w.create("v")
	w.mountOK("v", "first")
	w.unmountOK("v", "first")
	wait.For(t, "the end of the work in the background", func() error {
		info := w.core.Clones.Inventory()[0]
		return wait.Equal(info.Busy, "")
	})
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(fill, fmt.Sprint(i)), nil, 0o600)
		if giterror.NoSpace(err) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.Mount(t.Context(), "v", "1")
	wantErr(t, "mount without room", err, "no space left", held.Error())
	if got := w.core.Workspaces.Leases("v"); asked != 1 || len(got) > 0 {
		t.Errorf("MakeRoom was called %d times, leases %+v; want one call, no lease", asked, got)
	}
	makeRoom = func() error { return os.RemoveAll(fill) }
	if err := os.WriteFile(filepath.Join(w.mountOK("v", "2"), "README.md"), nil, 0o644); err != nil || asked != 2 {
		t.Errorf("write README.md in the mount: %v; MakeRoom was called %d times, want once", err, asked-1)
	}
	w.unmountOK("v", "2")
}
