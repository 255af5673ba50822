package rootfs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/testdir"
)

// keyOf returns the key of a build for amd64 from a lock, as rootfs/build computes it.
func keyOf(t *testing.T, lock string) string {
	t.Helper()
	sum := sha256.New()
	for _, name := range []string{"build", "apt.sh", "mirror.sh", "needed/main.go", lock} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(data)
	}
	fmt.Fprintln(sum, "amd64 1754697600")
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// inCache runs a script with the functions of rootfs/cache.sh.
func inCache(t *testing.T, cache, key, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-euo", "pipefail", "-c", ". ./cache.sh; " + script, "cache"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + cache, "arch=amd64", "key=" + key}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// result makes a directory with the files of a build that did not happen.
func result(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"rootfs-amd64.tar", "rootfs-amd64.files"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("the content of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCache runs builds that cannot succeed, because the mirror does not have the only package, beside entries of the
// user's cache.
func TestCache(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(lock, []byte("absent\t1\tabsent\t"+strings.Repeat("0", 64)+"\tpool/absent.deb\tmain\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	key := keyOf(t, lock)
	built := result(t)
	const builds = "the mirror does not have absent 1"
	remove := func(name string) func(string) error {
		return func(entry string) error { return os.Remove(filepath.Join(entry, name)) }
	}
	for _, c := range []struct {
		name   string
		change func(entry string) error
		env    []string // of two builds, one after the other
		want   string   // what the last build says; empty if it has nothing to do
		keeps  bool     // whether the entry is still there
	}{
		{name: "an entry", env: []string{""}, want: "rootfs: amd64: taken from ", keeps: true},
		{name: "twice", env: []string{"", ""}, keeps: true},
		{name: "FORCE=1", env: []string{"FORCE=1"}, want: builds, keeps: true},
		{name: "FRESH=1", env: []string{"FRESH=1"}, want: builds, keeps: true},
		{name: "FRESH=1 after a build that took it", env: []string{"", "FRESH=1"}, want: builds, keeps: true},
		{name: "no home", env: []string{"XDG_CACHE_HOME="}, want: builds, keeps: true},
		{name: "a relative path", env: []string{"XDG_CACHE_HOME=../cache"}, want: builds, keeps: true},
		{name: "no entry", change: os.RemoveAll, env: []string{""}, want: builds},
		{name: "no sums", change: remove("SHA256SUMS"), env: []string{""}, want: builds},
		{name: "no archive", change: remove("rootfs-amd64.tar"), env: []string{""}, want: builds},
		{name: "another byte", change: func(entry string) error {
			return os.WriteFile(filepath.Join(entry, "rootfs-amd64.tar"), []byte("The content of rootfs-amd64.tar"), 0o644)
		}, env: []string{""}, want: builds},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache, out := t.TempDir(), t.TempDir()
			entry := filepath.Join(cache, "helmdeck-repos/rootfs", key)
			inCache(t, cache, key, `keep_built "$1"`, built)
			if c.change != nil {
				if err := c.change(entry); err != nil {
					t.Fatal(err)
				}
			}
			var said []byte
			var err error
			for _, env := range c.env {
				cmd := exec.Command("./build")
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ARCH=amd64", "STRICT=1", "OUT=" + out, "LOCK=" + lock, "XDG_CACHE_HOME=" + cache,
					"MIRROR=file:///nonexistent", "MIRROR_SECURITY=file:///nonexistent", env}
				said, err = cmd.CombinedOutput()
			}
			if !strings.Contains(string(said), c.want) || c.want == "" && len(said) > 0 || (err != nil) != (c.want == builds) {
				t.Errorf("got %v: %s; want %q", err, said, c.want)
			}
			if _, err := os.Stat(entry); (err == nil) != c.keeps {
				t.Errorf("the entry: %v, want it kept: %v", err, c.keeps)
			}
			for _, name := range []string{"rootfs-amd64.tar", "rootfs-amd64.files"} {
				got, err := os.ReadFile(filepath.Join(out, name))
				if taken := len(c.env) > 1 || c.want != builds; taken && string(got) != "the content of "+name || !taken && err == nil {
					t.Errorf("%s is %q, %v; want it taken from the cache: %v", name, got, err, taken)
				}
			}
		})
	}
}

// TestCacheStaysSmall checks that the six entries that were used last stay, and nothing that a killed build has left.
func TestCacheStaysSmall(t *testing.T) {
	cache, built := t.TempDir(), result(t)
	dir := filepath.Join(cache, "helmdeck-repos/rootfs")
	if err := os.MkdirAll(filepath.Join(dir, "new.killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	age := func(name string, hours int) {
		when := time.Now().Add(time.Duration(-hours) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	age("new.killed", 20)
	for i := range 6 {
		name := fmt.Sprintf("key%d", i)
		inCache(t, cache, name, `keep_built "$1"`, built)
		age(name, 10-i)
	}
	inCache(t, cache, "key0", `take "$1"`, t.TempDir())
	inCache(t, cache, "key6", `keep_built "$1"`, built)
	inCache(t, cache, "key6", `keep_built "$1"`, built) // as a build does that another one has overtaken
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"key0", "key2", "key3", "key4", "key5", "key6"}; !slices.Equal(names, want) {
		t.Errorf("the cache has %q, want %q", names, want)
	}

	if said := inCache(t, "/dev/null", "key", `keep_built "$1"`, built); !strings.Contains(said, "the build is not kept in /dev/null/") {
		t.Errorf("a cache that cannot be written: %s", said)
	}
}

// cacheIn returns the variables for a build whose user has the cache in a directory, with the Go cache of this user.
func cacheIn(t *testing.T, dir string) []string {
	t.Helper()
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"XDG_CACHE_HOME=" + dir, "GOCACHE=" + strings.TrimSpace(string(goCache))}
}

// TestBuildIsKept builds the root filesystem, and checks that others get the same files from the cache.
func TestBuildIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	cache, dir := testdir.New(t, "rootfs-cache"), t.TempDir()
	archive, files := build(t, "amd64", append(cacheIn(t, cache), "FORCE=", "FRESH=")...)
	inCache(t, cache, keyOf(t, "lock.amd64"), `take "$1"`, dir)
	for name, want := range map[string][]byte{"rootfs-amd64.tar": archive, "rootfs-amd64.files": files} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of the cache is not what was built: %d bytes, %v; want %d bytes", name, len(got), err, len(want))
		}
	}
}
