package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestNoCacheLink: in no mode has a workspace a file for its cache in the work tree, not even one that git ignores. A file
// that a container makes in the place of the link is like any other.
func TestNoCacheLink(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "shared", "keep"} {
		w := newCheckpointWorld(t)
		_, dir := w.open("v", "1", "mode", mode)
		if _, err := os.Lstat(filepath.Join(dir, ".hdcache")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("mode %s: the link: %v", mode, err)
		}
		if _, err := os.Stat(filepath.Join(dir, ".git/hdcache/go-mod")); err != nil {
			t.Error(err)
		}
		for _, args := range [][]string{{"status", "--porcelain", "--ignored"}, {"ls-files", "--others"}, {"clean", "-ndffx"}} {
			if got := testgit.GitAny(t, dir, args...); got != "" {
				t.Errorf("mode %s: git %s: %q", mode, args, got)
			}
		}
		write(t, filepath.Join(dir, ".hdcache"), "mine")
		if got := testgit.GitAny(t, dir, "status", "--porcelain"); got != "?? .hdcache" {
			t.Errorf("mode %s: git does not show a file of the container: %q", mode, got)
		}
	}
}

// TestCacheLink: with cache_link=true git ignores the link, and it is no change.
func TestCacheLink(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	plain, _ := w.open("v", "1")
	w.release("v", "1")
	rec, dir := w.open("w", "1", "cache_link", "true")
	if target, err := os.Readlink(filepath.Join(dir, ".hdcache")); err != nil || target != ".git/hdcache" {
		t.Errorf("the link: %q, %v", target, err)
	}
	if got := testgit.GitAny(t, dir, "status", "--porcelain", "--ignored"); got != "!! .hdcache" {
		t.Errorf("status %q", got)
	}
	if plain.Tree != rec.Tree {
		t.Errorf("volumes with and without the link have the trees %s and %s, want one", rec.Tree, plain.Tree)
	}
	w.release("w", "1")
	reaped(t, w)
	if _, err := w.m.Checkpoint(rec.ID, volume.DefaultSubject); err == nil {
		t.Error("the link alone is kept")
	}
}

// TestCacheTag: each cache has the file by which programs know caches. What a container makes of it is in no other cache.
func TestCacheTag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"1", "2"} {
		_, dir := w.open("v", id)
		tag := filepath.Join(dir, ".git/hdcache/CACHEDIR.TAG")
		if got := content(t, tag); !strings.HasPrefix(got, "Signature: 8a477f597d28d172789f06886806bc55\n") {
			t.Errorf("mount %s: CACHEDIR.TAG has %q", id, got)
		}
		write(t, tag, "mine")
		put(t, dir, stored(id), id) // so that there is something to publish
		w.end("v", id)
	}
}
