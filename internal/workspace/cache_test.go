package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

func owner(t *testing.T, path string) (uid, gid int) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid), int(st.Gid)
}

func TestEnsureCache(t *testing.T) {
	t.Parallel()
	want := append([]string{"env"}, cacheDirs...)
	slices.Sort(want)
	dir := t.TempDir()
	path, err := ensureCache(dir, 1234, 2345)
	if err != nil || path != filepath.Join(dir, "1234") {
		t.Fatalf("%q, %v", path, err)
	}
	check := func(what string) {
		t.Helper()
		if _, err := ensureCache(dir, 1234, 2345); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := entries(t, path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		for _, name := range append([]string{"."}, want...) {
			if uid, gid := owner(t, filepath.Join(path, name)); uid != 1234 || gid != 2345 {
				t.Errorf("%s: %s belongs to %d:%d", what, name, uid, gid)
			}
		}
	}
	check("again")
	if err := os.RemoveAll(filepath.Join(path, "npm")); err != nil {
		t.Fatal(err)
	}
	check("one is missing")
	for _, name := range want {
		if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	check("all are missing")
	data, err := os.ReadFile(filepath.Join(path, "env"))
	if err != nil || string(data) != string(cacheEnv) {
		t.Errorf("env: %q, %v", data, err)
	}
	// env names every directory.
	for _, name := range cacheDirs {
		if !strings.Contains(string(cacheEnv), "$HDCACHE/"+name) {
			t.Errorf("env does not name %s", name)
		}
	}
	// An existing file stays as it is.
	if err := os.WriteFile(filepath.Join(path, "env"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("env was changed")
	if data, _ := os.ReadFile(filepath.Join(path, "env")); string(data) != "mine" {
		t.Errorf("env was put back: %q", data)
	}
}

// TestHostileCache replaces entries of the cache by links: ensureCache makes nothing and
// changes no owner through them.
func TestHostileCache(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"go-mod", "env", "ccache"} {
		for _, target := range []string{"outside", "missing", "/etc", "../..", ".", name} {
			dir, outside := t.TempDir(), t.TempDir()
			path, err := ensureCache(dir, 1234, 1234)
			if err != nil {
				t.Fatal(err)
			}
			switch target {
			case "outside":
				target = outside
			case "missing":
				target = filepath.Join(outside, "new")
			}
			if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
			etc, _ := owner(t, "/etc")
			if _, err := ensureCache(dir, 1234, 1234); err != nil {
				t.Errorf("%s -> %s: %v", name, target, err)
			}
			if got, err := os.Readlink(filepath.Join(path, name)); err != nil || got != target {
				t.Errorf("%s -> %s: now %q, %v", name, target, got, err)
			}
			if got := entries(t, outside); len(got) > 0 {
				t.Errorf("%s -> %s: made %q outside", name, target, got)
			}
			if uid, _ := owner(t, outside); uid != os.Getuid() {
				t.Errorf("%s -> %s: gave the target away", name, target)
			}
			if uid, _ := owner(t, "/etc"); uid != etc {
				t.Errorf("%s -> %s: gave /etc away", name, target)
			}
		}
	}
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
	for _, e := range entries(t, filepath.Join(b, ".hdcache")) {
		if err := os.RemoveAll(filepath.Join(b, ".hdcache", e)); err != nil {
			t.Fatal(err)
		}
	}
	_, c := w.open("v", "4", "uid", "1234", "gid", "1234")
	if got := entries(t, filepath.Join(c, ".hdcache")); len(got) != len(cacheDirs)+1 {
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
			if len(vars) < len(cacheDirs) {
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

// TestCacheVariablesAreDocumented: the table of docs/how-to/caches.md and the example for
// compose have the variables of env, for a volume at /w.
func TestCacheVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "env", string(cacheEnv))
	want := variables(t, dir, "HDCACHE=/w/.git/hdcache . ./env")
	text := func(path string) string {
		data, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	table, example := make(map[string]string), make(map[string]string)
	quoted := regexp.MustCompile("`([^`]+)`")
	_, rows, _ := strings.Cut(text("docs/how-to/caches.md"), "| for | variable | value |\n")
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			break // the table has ended
		}
		names, values := quoted.FindAllStringSubmatch(cells[2], -1), quoted.FindAllStringSubmatch(cells[3], -1)
		for i, name := range names {
			table[name[1]] = values[min(i, len(values)-1)][1]
		}
	}
	_, environment, _ := strings.Cut(text("examples/compose.yaml"), "    environment:")
	for line := range strings.Lines(environment) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(line, "      ") {
			example[name] = strings.Trim(value, `"`)
		} else if strings.TrimSpace(line) == "" {
			break
		}
	}
	if !maps.Equal(table, want) {
		t.Errorf("docs/how-to/caches.md says\n%v, env says\n%v", table, want)
	}
	if !maps.Equal(example, want) {
		t.Errorf("the example says\n%v, env says\n%v", example, want)
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

// TestCacheVariables checks that api.CacheVariables has what the script env sets.
func TestCacheVariables(t *testing.T) {
	sh := exec.Command("sh", "-c", string(cacheEnv)+"exec env")
	sh.Env = []string{"HDCACHE=/w/" + api.CacheDir, "PATH=" + os.Getenv("PATH")}
	out, err := sh.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"HDCACHE", "PATH", "PWD", "SHLVL", "OLDPWD", "_"}, name) {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	for _, v := range api.CacheVariables("/w") {
		want = append(want, v.Name+"="+v.Value)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the script sets\n%q, CacheVariables has\n%q", got, want)
	}
}
