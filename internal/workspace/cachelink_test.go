package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestNoCacheLink: with cache_link=false a workspace has the cache, and no file that git does not track. A file that a
// container makes in the place of the link is a change.
func TestNoCacheLink(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "cache_link", "false")
	if _, err := os.Lstat(filepath.Join(dir, ".hdcache")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git/hdcache/go-mod")); err != nil {
		t.Error(err)
	}
	if got := testgit.GitAny(t, dir, "ls-files", "--others"); got != "" {
		t.Errorf("untracked: %q", got)
	}
	write(t, filepath.Join(dir, ".hdcache"), "mine")
	w.release("v", "1")
	reaped(t, w)
	if _, err := w.m.Checkpoint(rec.ID, volume.DefaultSubject); err != nil {
		t.Errorf("the file is not kept: %v", err)
	}
}
