package cache

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testdir"
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

func TestEnsureCache(t *testing.T) {
	t.Parallel()
	want := append([]string{"env"}, tools...)
	slices.Sort(want)
	dir := t.TempDir()
	path, err := Ensure(dir, 1234, 2345)
	if err != nil || path != filepath.Join(dir, "1234") {
		t.Fatalf("%q, %v", path, err)
	}
	check := func(what string) {
		t.Helper()
		if _, err := Ensure(dir, 1234, 2345); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := entries(t, path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		for _, name := range append([]string{"."}, want...) {
			if uid, gid := testdir.Owner(t, filepath.Join(path, name)); uid != 1234 || gid != 2345 {
				t.Errorf("%s: %s belongs to %d:%d", what, name, uid, gid)
			}
		}
	}
	check("again")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	check("the whole cache is missing")
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
	if err != nil || string(data) != string(env) {
		t.Errorf("env: %q, %v", data, err)
	}
	// env names every directory.
	for _, name := range tools {
		if !strings.Contains(string(env), "$HDCACHE/"+name) {
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

// TestHostile replaces entries of the cache by links: Ensure makes nothing and
// changes no owner through them.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"go-mod", "env", "ccache"} {
		for _, target := range []string{"outside", "missing", "/etc", "../..", ".", name} {
			dir, outside := t.TempDir(), t.TempDir()
			path, err := Ensure(dir, 1234, 1234)
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
			etc, _ := testdir.Owner(t, "/etc")
			if _, err := Ensure(dir, 1234, 1234); err != nil {
				t.Errorf("%s -> %s: %v", name, target, err)
			}
			if got, err := os.Readlink(filepath.Join(path, name)); err != nil || got != target {
				t.Errorf("%s -> %s: now %q, %v", name, target, got, err)
			}
			if got := entries(t, outside); len(got) > 0 {
				t.Errorf("%s -> %s: made %q outside", name, target, got)
			}
			if uid, _ := testdir.Owner(t, outside); uid != os.Getuid() {
				t.Errorf("%s -> %s: gave the target away", name, target)
			}
			if uid, _ := testdir.Owner(t, "/etc"); uid != etc {
				t.Errorf("%s -> %s: gave /etc away", name, target)
			}
		}
	}
}

// TestVariablesAreDocumented: the table of docs/how-to/caches.md and the example for compose
// have the variables of env, for a volume at /w.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	want := make(map[string]string)
	for _, v := range api.CacheVariables("/w") { // TestVariables compares them with env
		want[v.Name] = v.Value
	}
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

// TestVariables checks that api.CacheVariables has what the script env sets.
func TestVariables(t *testing.T) {
	sh := exec.Command("sh", "-c", string(env)+"exec env")
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
