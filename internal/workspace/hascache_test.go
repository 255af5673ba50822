package workspace

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHasCache: it is known what is published, without following the links that are.
func TestHasCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	has := func(clone string, uid *uint32, rel string) bool {
		t.Helper()
		has, err := w.m.config.Warm.HasCache(clone, uid, rel)
		if err != nil {
			t.Error(err)
		}
		return has
	}
	rec, dir := w.open("v", "1", "uid", "1234")
	uid, other := uint32(1234), uint32(1)
	if !has(rec.Clone, nil, "") || !has(rec.Clone, &uid, "") || has(rec.Clone, &other, "") || has(rec.Clone+"0", nil, "") {
		t.Error("the caches of a clone are not found by their uid")
	}
	if has(rec.Clone, nil, "npm") {
		t.Error("the directory that the plugin makes counts as published")
	}
	put(t, dir, stored("a"), "a")
	put(t, dir, ".git/hdcache/mine/file", "f")
	if err := os.Symlink("/etc", filepath.Join(dir, ".git/hdcache/mine/link")); err != nil {
		t.Fatal(err)
	}
	w.end("v", "1")
	for rel, want := range map[string]bool{
		"": true, "npm": true, "npm/_cacache/content-v2/a": true, "npm/_cacache/content-v2/b": false, "mine/file": true, "mine/link": true,
		"mine/file/x": false, "mine/link/passwd": false,
	} {
		if has(rec.Clone, &uid, rel) != want {
			t.Errorf("%q: got %t", rel, !want)
		}
	}
	if found, err := w.m.config.Warm.HasCache(rec.Clone, nil, "../files"); found || err == nil {
		t.Errorf("a path that leads out of the cache: %t, %v", found, err)
	}
	if has(rec.Clone, &other, "npm") {
		t.Error("it is found in the cache of another uid")
	}
	if _, err := w.m.config.Warm.DropCache(t.Context(), rec.Clone, &uid, "mine"); err != nil || has(rec.Clone, nil, "mine") || !has(rec.Clone, nil, "npm") {
		t.Errorf("what is dropped is still there, or more is dropped: %v", err)
	}
}
