package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestWarmOwners: a container that runs as root does not lock the next one out of a warm directory, and the files of a
// third user are named.
func TestWarmOwners(t *testing.T) {
	t.Parallel()
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": remote(t).URL("sample"), "warm": "node_modules", "uid": "1000", "gid": "1001"})
	write := func(id, name string, uid int) (dir string) {
		t.Helper()
		dir = filepath.Join(p.mount("v", id), "node_modules")
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(filepath.Join(dir, name), uid, uid); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write("1", "roots", 0)
	p.unmount("v", "1")
	dir := write("2", "third", 77)
	for _, path := range []string{dir, filepath.Join(dir, "roots")} {
		if uid, gid := testdir.Owner(t, path); uid != 1000 || gid != 1001 {
			t.Errorf("%s belongs to %d:%d", path, uid, gid)
		}
	}
	if got := p.warnings("v"); len(got) > 0 {
		t.Errorf("warnings: %q", got)
	}
	p.unmount("v", "2")
	dir = write("3", "fourth", 1000)
	if uid, _ := testdir.Owner(t, filepath.Join(dir, "third")); uid != 77 {
		t.Errorf("the third user's directory belongs to %d", uid)
	}
	if got := p.warnings("v"); len(got) != 1 || !strings.Contains(got[0], `warm directory "node_modules" belong to uid 77`) {
		t.Errorf("warnings: %q", got)
	}
	p.unmount("v", "3")
}
