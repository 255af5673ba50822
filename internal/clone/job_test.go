package clone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git"
)

// If a checkout crashes, the error names the commit, nothing is left of the checkout, and
// the store does not count as damaged.
func TestCheckoutCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.data.Close()
	self := filepath.Join(filepath.Dir(w.Root), "self")
	if err := os.WriteFile(self, []byte("#!/bin/sh\necho 'panic: loose object is corrupt' >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.git = git.Config{Self: self}
	w.start("boot 1")
	s := w.spec("ref", "main")
	c := w.clone(s)
	_, err := c.Prepare(t.Context(), s)
	if commit := w.remote("rev-parse", "main"); err == nil || !strings.Contains(err.Error(), "crashed") || !strings.Contains(err.Error(), commit) {
		t.Errorf("prepare: %v, want a crash and %s", err, commit)
	}
	if left, err := os.ReadDir(filepath.Join(c.Dir, "trees")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	_, fetches, clones := w.requests()
	w.git = git.Config{}
	w.restart("boot 1")
	w.prepare(s).Release()
	if _, f, n := w.requests(); f != fetches || n != clones {
		t.Errorf("%d fetches and %d clones after the crash, want none", f-fetches, n-clones)
	}
}
