package driver

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// TestWorkspaceCollects checks that git's own maintenance works in a workspace as in a clone, and joins what is new
// there, and only that: the packs that the workspace shares with others stay as they are.
func TestWorkspaceCollects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	packs := func(dir string) (names []string) {
		paths, err := filepath.Glob(filepath.Join(dir, ".git/objects/pack/*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}
	w.create("kept", "mode", "keep")
	dir := w.mountOK("kept", "1")
	shared := packs(dir)
	if len(shared) == 0 {
		t.Fatal("the workspace began without a pack")
	}
	for i := range 60 { // more than the 50 packs that git takes for enough
		write(t, dir, "new", fmt.Sprint(i))
		testgit.Git(t, dir, "add", "new")
		testgit.Git(t, dir, "-c", "gc.auto=0", "commit", "--quiet", "--message=new")
		testgit.Git(t, dir, "repack", "--quiet", "-d")
	}
	if n := len(packs(dir)); n < 60 {
		t.Fatalf("%d packs after 60 commits", n)
	}
	testgit.Git(t, dir, "-c", "gc.autoDetach=false", "gc", "--quiet", "--auto")
	left := packs(dir)
	if len(left) != len(shared)+1 {
		t.Errorf("%d packs, of which the workspace began with %d; want one more", len(left), len(shared))
	}
	for _, name := range shared {
		if !slices.Contains(left, name) {
			t.Errorf("%s is gone, which the workspace began with", name)
		}
	}
	testgit.Git(t, dir, "fsck", "--strict")
	w.unmountOK("kept", "1")
	w.create("next")
	testgit.Git(t, w.mountOK("next", "1"), "fsck", "--strict") // the shared packs are whole for others
	w.unmountOK("next", "1")
}
