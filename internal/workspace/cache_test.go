package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testgit"
)

// entries lists a directory.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestCacheIsShared: workspaces of a uid share the cache, also after a container emptied
// it. A git clean does not remove its files.
func TestCacheIsShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, a := w.open("v", "1", "uid", "1234", "gid", "1234")
	_, b := w.open("v", "2", "uid", "1234", "gid", "1234")
	_, other := w.open("v", "3")
	if err := os.WriteFile(filepath.Join(a, ".hdcache/go-mod/x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(b, ".hdcache/go-mod/x")); err != nil || string(data) != "x" {
		t.Errorf("the other workspace reads %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(other, ".hdcache/go-mod/x")); !os.IsNotExist(err) {
		t.Errorf("another uid sees it: %v", err)
	}
	if got := testgit.GitAny(t, a, "status", "--porcelain", "--ignored"); got != "!! .hdcache" {
		t.Errorf("status %q", got)
	}
	testgit.GitAny(t, a, "clean", "-ffdxq")
	if _, err := os.Stat(filepath.Join(b, ".hdcache/go-mod/x")); err != nil {
		t.Errorf("after git clean: %v", err)
	}
	all := entries(t, filepath.Join(b, ".hdcache"))
	for _, e := range all {
		if err := os.RemoveAll(filepath.Join(b, ".hdcache", e)); err != nil {
			t.Fatal(err)
		}
	}
	_, c := w.open("v", "4", "uid", "1234", "gid", "1234")
	if got := entries(t, filepath.Join(c, ".hdcache")); !slices.Equal(got, all) {
		t.Errorf("after rm -rf .hdcache/*: %q", got)
	}
	// The next workspace is mounted even if an entry was replaced.
	if err := os.RemoveAll(filepath.Join(c, ".hdcache/go-mod")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(c, ".hdcache/go-mod")); err != nil {
		t.Fatal(err)
	}
	w.open("v", "5", "uid", "1234", "gid", "1234")
}

// variables returns the variables that env exports when a shell runs line, which sources it.
func variables(t *testing.T, dir, line string) map[string]string {
	t.Helper()
	cmd := exec.Command("sh", "-euc", line+"; env")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name != "PATH" && name != "PWD" && name != "HDCACHE" && name != "_" {
			all[name] = value
		}
	}
	return all
}

// TestCacheSurvivesGit: the paths that env names still lead to the cache after git cleaned
// up. Both lines that source env are tried: that of docs/how-to/caches.md and an earlier one.
func TestCacheSurvivesGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, tt := range []struct {
		name string
		do   func(dir string)
	}{
		{"clean", func(dir string) { testgit.GitAny(t, dir, "clean", "-fdxq") }},
		{"clean, also of repositories", func(dir string) { testgit.GitAny(t, dir, "clean", "-ffdxq") }},
		{"stash", func(dir string) {
			put(t, dir, "new", "new")
			testgit.GitAny(t, dir, "stash", "push", "-q", "-u")
			put(t, dir, "new", "again")
			testgit.GitAny(t, dir, "stash", "push", "-q", "-a")
		}},
		{"another work tree", func(dir string) {
			other := filepath.Join(t.TempDir(), "other")
			testgit.GitAny(t, dir, "worktree", "add", "-q", other)
			testgit.GitAny(t, other, "clean", "-ffdxq")
			testgit.GitAny(t, dir, "worktree", "remove", "--force", other)
		}},
		{"gc", func(dir string) { testgit.GitAny(t, dir, "gc", "-q", "--prune=now") }},
		{"a repository in a subdirectory", func(dir string) {
			put(t, dir, "sub/x", "x")
			sub := filepath.Join(dir, "sub")
			testgit.GitAny(t, sub, "init", "-q")
			testgit.GitAny(t, sub, "clean", "-ffdxq")
		}},
		{"all of them removed", func(dir string) {
			for _, e := range entries(t, dir) {
				if e != ".git" {
					if err := os.RemoveAll(filepath.Join(dir, e)); err != nil {
						t.Fatal(err)
					}
				}
			}
			testgit.GitAny(t, dir, "reset", "-q", "--hard")
		}},
	} {
		for _, path := range []string{"/.git/hdcache", "/.hdcache"} {
			id := fmt.Sprint(i, path)
			rec, dir := w.open("v", id)
			cache := filepath.Join(w.root, "clones", rec.Clone, "cache/0")
			vars := variables(t, dir, fmt.Sprintf("HDCACHE=%[1]s . %[1]s/env", dir+path))
			if len(vars) < len(api.CacheVariables(dir)) {
				t.Errorf("%s: env says %v", path, vars)
			}
			tt.do(dir)
			for name, value := range vars {
				if name == "BUNDLE_GLOBAL_GEM_CACHE" { // "true"
					continue
				}
				value = strings.TrimPrefix(value, "-Dmaven.repo.local=")
				// Tools make missing directories.
				if err := os.MkdirAll(value, 0o755); err != nil {
					t.Errorf("%s, %s: %s: %v", tt.name, path, name, err)
				}
				put(t, value, name, id)
				wantFile(t, cache, filepath.Join(filepath.Base(value), name), id)
			}
			w.release("v", id)
		}
	}
}

// TestReadonlyCache: the files of others can be read, and nothing can be written.
func TestReadonlyCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, first := w.open("v", "1", "cache", "readonly") // the cache is made for it all the same
	_, shared := w.open("v", "2")
	file := ".hdcache/go-mod/x"
	if err := os.WriteFile(filepath.Join(shared, file), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(first, file)); err != nil || string(data) != "x" {
		t.Errorf("reads %q, %v", data, err)
	}
	if err := os.WriteFile(filepath.Join(first, file), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writes: %v", err)
	}
	if got := testgit.GitAny(t, first, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
}
