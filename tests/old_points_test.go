package tests

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// After a crash the host can still have the tmpfs with the mount points of an earlier plugin
// process, which the new process does not see. It has an empty mount point for each kept workspace.
// No container may get such an empty directory.
func TestOldMountPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	for _, mode := range modes {
		e.create(t, mode, "repo="+r.url, "ref=main", "mode="+mode, "subject=old")
	}
	e.sh(t, mount("keep"), "echo kept >kept")
	kept, err := filepath.Glob(e.Data("mnt", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("mount points: %q, %v, want one, of the kept workspace", kept, err)
	}

	e.disable(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount("old", e.Data("mnt"), "tmpfs", 0, ""))
	must(os.Mkdir(kept[0], 0o700))
	e.enable(t) // the engine binds the directory onto itself, without the mounts in it
	must(unix.Mount("", e.Data(), "", unix.MS_PRIVATE|unix.MS_REC, ""))
	must(unix.Unmount(e.Data(), unix.MNT_DETACH)) // the mounts below that bind become visible again

	same(t, "keep", e.sh(t, mount("keep"), "cat kept"), "kept")
	same(t, "private", e.sh(t, mount("private"), portrait), want)
	same(t, "shared", e.sh(t, mount("shared"), portrait), want)
	for _, mode := range modes {
		e.docker(t, "volume", "rm", mode)
	}
	e.awaitReclaimed(t, "old")
	e.awaitUnmounted(t)
	e.awaitEmpty(t, "trash")
	e.awaitNoChildren(t)
}
