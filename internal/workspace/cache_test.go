package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
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

// stored is the path of a file in a cache that npm names by its content.
func stored(name string) string { return ".git/hdcache/npm/_cacache/content-v2/" + name }

// TestCache: a workspace has what was published when it was mounted, and what it writes and removes is its own until it
// ends. Then others get what is new.
func TestCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := []string{"uid", "1234", "gid", "2345"}
	_, a := w.open("v", "1", owner...)
	_, b := w.open("v", "2", owner...)
	tools := entries(t, filepath.Join(a, ".git/hdcache"))
	for name, dir := range map[string]string{"a": a, "b": b} {
		put(t, dir, stored(name), name)
		put(t, dir, stored("both"), "both")
	}
	wantFile(t, a, stored("b"), "")
	wantFile(t, b, stored("a"), "")
	if got := testgit.GitAny(t, a, "status", "--porcelain", "--ignored"); got != "" {
		t.Errorf("status %q", got)
	}
	testgit.GitAny(t, a, "clean", "-ffdxq")
	w.end("v", "1")
	wantFile(t, b, stored("a"), "") // it began before

	_, c := w.open("v", "3", owner...)
	wantFile(t, c, stored("a"), "a")
	for _, e := range tools { // what one removes is there for the others
		if err := os.RemoveAll(filepath.Join(c, ".git/hdcache", e)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(c, ".git/hdcache/npm")); err != nil {
		t.Fatal(err)
	}
	w.end("v", "3")
	w.end("v", "2")

	_, d := w.open("v", "4", owner...)
	for _, name := range []string{"a", "b", "both"} {
		wantFile(t, d, stored(name), name)
	}
	if got := entries(t, filepath.Join(d, ".git/hdcache")); !slices.Equal(got, tools) {
		t.Errorf("the cache has %q, want %q", got, tools)
	}
	for _, name := range []string{".git/hdcache", ".git/hdcache/npm", stored("a"), filepath.Dir(stored("a"))} {
		if uid, gid := testdir.Owner(t, filepath.Join(d, name)); uid != 1234 || gid != 2345 {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
	_, other := w.open("v", "5")
	wantFile(t, other, stored("a"), "")
	_, off := w.open("v", "6", append(owner, "cache", "off")...)
	wantFile(t, off, stored("a"), "")
	w.close()
	w.start()
	_, e := w.open("v", "7", owner...)
	wantFile(t, e, stored("b"), "b")
}

// TestCacheRemoved: a container may remove .git, and everything else, and begin anew.
func TestCacheRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, a := w.open("v", "1")
	put(t, a, stored("a"), "a")
	w.end("v", "1")
	_, b := w.open("v", "2")
	if err := os.RemoveAll(filepath.Join(b, ".git")); err != nil {
		t.Fatal(err)
	}
	testgit.GitAny(t, b, "init", "-q")
	put(t, b, stored("b"), "b")
	w.end("v", "2")
	_, c := w.open("v", "3")
	wantFile(t, c, stored("a"), "a")
	wantFile(t, c, stored("b"), "b")
}

// published waits until all workspaces have published what is new in their caches.
func published(t *testing.T, w *world, rec meta.Workspace) {
	t.Helper()
	wait.For(t, "the caches to be published", func() error { return wait.Equal(w.m.Unpublished(rec.Clone), 0) })
}

// TestKeptCache: a workspace that its volume keeps publishes at its last release, and on request, without an end.
func TestKeptCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	options := []string{"mode", "keep"}
	rec, dir := w.open("v", "1", options...)
	put(t, dir, stored("a"), "a")
	if got, err := w.m.PublishCache(t.Context(), rec.ID); err != nil || got.Files != 1 || got.Size.Bytes == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	_, other := w.open("o", "1")
	wantFile(t, other, stored("a"), "a")
	put(t, dir, stored("b"), "b")
	put(t, dir, stored("a"), "changed in place")
	w.release("v", "1")
	published(t, w, rec)
	_, other = w.open("o", "2")
	wantFile(t, other, stored("b"), "b")
	wantFile(t, dir, stored("a"), "changed in place")
	if n := w.m.config.Warm.CacheLayers(rec.Clone); len(n) != 2 {
		t.Errorf("%d layers", len(n))
	}
	w.restart()
	_, dir = w.join("v", "2")
	wantFile(t, dir, stored("b"), "b")
	put(t, dir, stored("c"), "c")
	w.release("v", "2")
	published(t, w, rec)
	_, other = w.open("o", "3")
	wantFile(t, other, stored("c"), "c")
}

// TestUnsettledTool: while containers run, nothing is published of a tool that the table does not have if something was
// just written there, and the owner sees that. The last release publishes it.
func TestUnsettledTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m.publisher.quiet = time.Hour
	rec, dir := w.open("v", "1", "mode", "keep")
	put(t, dir, stored("a"), "a")
	put(t, dir, ".git/hdcache/mine/x", "x")
	got, err := w.m.PublishCache(t.Context(), rec.ID)
	if err != nil || got.Files != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if left, _ := w.m.LeftOut(rec.ID); !strings.Contains(strings.Join(left, "; "), "mine: ") || !slices.Equal(left, got.Left) {
		t.Errorf("left out %q, and the request says %q", left, got.Left)
	}
	_, other := w.open("o", "1")
	wantFile(t, other, stored("a"), "a")
	wantFile(t, other, ".git/hdcache/mine/x", "")
	w.release("v", "1")
	published(t, w, rec)
	_, other = w.open("o", "2")
	wantFile(t, other, ".git/hdcache/mine/x", "x")
	if left, _ := w.m.LeftOut(rec.ID); left != nil {
		t.Errorf("left out %q", left)
	}
}

// TestForecast: while a workspace lives, its owner can see what of its cache would not be published.
func TestForecast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, dir := w.open("v", "1")
	put(t, dir, stored("a"), "a")
	put(t, dir, ".git/hdcache/nuget/half/1/x", "x")
	look := func() []string {
		t.Helper()
		found, err := w.m.records.lookUp(rec.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.m.publisher.forecast(t.Context(), found)
		_, forecast := w.m.LeftOut(rec.ID)
		return forecast
	}
	if got := look(); len(got) != 1 || !strings.HasPrefix(got[0], "nuget/half/1: ") {
		t.Errorf("it would leave out %q", got)
	}
	if n := len(w.m.config.Warm.CacheLayers(rec.Clone)); n != 0 {
		t.Errorf("%d layers were published", n)
	}
	put(t, dir, ".git/hdcache/nuget/half/1/.nupkg.metadata", "{}")
	if got := look(); got != nil {
		t.Errorf("it would leave out %q", got)
	}
	w.end("v", "1")
	_, dir = w.open("v", "2")
	wantFile(t, dir, ".git/hdcache/nuget/half/1/x", "x")
	wantFile(t, dir, stored("a"), "a")
}

// TestDropCache: a dropped path is gone for those that begin later, and what is left stays.
func TestDropCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, a := w.open("v", "1")
	put(t, a, stored("a"), "a")
	put(t, a, ".git/hdcache/go-mod/cache/download/m/@v/v1.0.0.zip", "zip")
	w.end("v", "1")
	_, b := w.open("v", "2")
	drop := func(rel string) {
		t.Helper()
		gone, err := w.m.config.Warm.DropCache(t.Context(), rec.Clone, nil, rel)
		if err != nil || gone.Inodes == 0 {
			t.Errorf("%q: %+v went, %v", rel, gone, err)
		}
	}
	drop("npm/_cacache")
	wantFile(t, b, stored("a"), "a")
	_, c := w.open("v", "3")
	wantFile(t, c, stored("a"), "")
	wantFile(t, c, ".git/hdcache/go-mod/cache/download/m/@v/v1.0.0.zip", "zip")
	if _, err := os.Stat(filepath.Join(c, ".git/hdcache/npm")); err != nil {
		t.Error(err)
	}
	drop("")
	_, d := w.open("v", "4")
	wantFile(t, d, ".git/hdcache/go-mod/cache/download/m/@v/v1.0.0.zip", "")
	put(t, c, stored("c"), "c")
	w.end("v", "3") // after its cache was dropped
	_, e := w.open("v", "5")
	wantFile(t, e, stored("c"), "c")
}

// TestInterruptedPublication: what is left in a workspace after a part of its cache was moved is not published, because a
// directory that is left half looks whole.
func TestInterruptedPublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, dir := w.open("v", "1")
	put(t, dir, ".git/hdcache/go-mod/m@v1.0.0/half", "x")
	upper := filepath.Join(w.m.mounter.Upper(rec), ".git/hdcache")
	if err := unix.Lsetxattr(upper, "trusted.helmdeck.moved", nil, 0); err != nil {
		t.Fatal(err)
	}
	w.end("v", "1")
	_, dir = w.open("v", "2")
	wantFile(t, dir, ".git/hdcache/go-mod/m@v1.0.0/half", "")
	put(t, dir, ".git/hdcache/go-mod/m@v1.0.0/whole", "x")
	w.end("v", "2")
	_, dir = w.open("v", "3")
	wantFile(t, dir, ".git/hdcache/go-mod/m@v1.0.0/whole", "x")
}

// TestDropKeepsBase: a layer without a dropped path has none of the directories of the base.
func TestDropKeepsBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, dir := w.open("v", "1")
	put(t, dir, stored("a"), "a")
	put(t, dir, ".git/hdcache/mine/x", "x")
	w.end("v", "1")
	if _, err := w.m.config.Warm.DropCache(t.Context(), rec.Clone, nil, "mine"); err != nil {
		t.Fatal(err)
	}
	for _, l := range w.m.config.Warm.CacheLayers(rec.Clone) {
		layer := filepath.Join(w.root, "clones", rec.Clone, "warm", l.ID, "files/.git/hdcache")
		if got := entries(t, layer); !slices.Equal(got, []string{"npm"}) {
			t.Errorf("the layer has %q", got)
		}
	}
}

// TestManyPublish: the layers of a cache are merged before they are too many, and nothing is lost.
func TestManyPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 40
	var rec meta.Workspace
	for i := range n {
		var dir string
		rec, dir = w.open("v", fmt.Sprint(i))
		put(t, dir, stored(fmt.Sprint(i)), fmt.Sprint(i))
	}
	for i := range n {
		w.release("v", fmt.Sprint(i))
	}
	reaped(t, w)
	w.close() // waits for the merges
	w.start()
	if layers := len(w.m.config.Warm.CacheLayers(rec.Clone)); layers > 16 {
		t.Errorf("%d layers", layers)
	}
	_, dir := w.open("v", "last")
	for i := range n {
		wantFile(t, dir, stored(fmt.Sprint(i)), fmt.Sprint(i))
	}
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
			_, dir := w.open("v", id, "cache_link", "true")
			vars := variables(t, dir, fmt.Sprintf("HDCACHE=%[1]s . %[1]s/env", dir+path))
			if len(vars) < len(api.CacheVariables(dir)) {
				t.Errorf("%s: env says %v", path, vars)
			}
			tt.do(dir)
			for name, value := range vars {
				if name == "BUNDLE_GLOBAL_GEM_CACHE" || name == "UV_LINK_MODE" { // no paths
					continue
				}
				value = strings.TrimPrefix(value, "-Dmaven.repo.local=")
				// Tools make missing directories.
				if err := os.MkdirAll(value, 0o755); err != nil {
					t.Errorf("%s, %s: %s: %v", tt.name, path, name, err)
				}
				put(t, value, name, id)
				wantFile(t, filepath.Join(dir, ".git/hdcache"), filepath.Join(filepath.Base(value), name), id)
			}
			w.release("v", id)
		}
	}
}
