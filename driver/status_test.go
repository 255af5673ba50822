package driver

import (
	"errors"
	"reflect"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestStatusNotUsed checks that Status says why the newest workspace has no cache, or
// nothing at a warm path.
func TestStatusNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "cache", "off", "warm", "node_modules")
	w.create("plain")
	w.mountOK("v", "1")
	w.mountOK("plain", "1")
	v, err := w.Get("v")
	if err != nil {
		t.Fatal(err)
	}
	got, ok := v.Status["not_used"].(map[string]string)
	if !ok || len(got) != 2 || got[".git/hdcache"] != "the volume has cache=off" || got["node_modules"] == "" {
		t.Errorf("not_used: %v", v.Status["not_used"])
	}
	plain, err := w.Get("plain")
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Status["not_used"]; !reflect.DeepEqual(got, nil) {
		t.Errorf("not_used of a volume that has everything: %v, want nothing", got)
	}
}

// TestStatusNamesNoEmptyDirectory checks that neither Get nor Path names a directory where nothing is
// mounted.
func TestStatusNamesNoEmptyDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	dir := w.mountOK("v", "1")
	where := func() [2]string {
		t.Helper()
		v, err := w.Get("v")
		path, pathErr := w.Path("v")
		if err := errors.Join(err, pathErr); err != nil {
			t.Fatal(err)
		}
		return [2]string{v.Mountpoint, path}
	}
	if got, want := where(), [2]string{dir, dir}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	testdir.Unmount(t, w.core.Root)
	if got, want := where(), [2]string{}; got != want {
		t.Errorf("after the mount is gone: got %q, want %q", got, want)
	}
	if again := w.mountOK("v", "1"); again == dir {
		t.Errorf("Mount returned %q, which is not mounted", again)
	}
}
