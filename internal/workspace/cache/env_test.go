package cache

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// shells are the POSIX shells of the machine, as arguments. "sh" is always there.
func shells() map[string][]string {
	found := map[string][]string{"sh": {"sh"}}
	for name, args := range map[string][]string{
		"dash": {"dash"}, "bash": {"bash"}, "posix": {"bash", "--posix"}, "busybox": {"busybox", "sh"}, "ksh": {"ksh"}, "mksh": {"mksh"},
	} {
		if _, err := exec.LookPath(args[0]); err == nil {
			found[name] = args
		}
	}
	return found
}

// home is a container: its directory has a cache, with env, and a home.
type home struct {
	t   *testing.T
	sh  []string // the shell
	dir string
	as  uint32   // the uid
	env []string // more variables
}

// newHome makes a home whose files are those with a slash at the end, as directories, and the others, with their path as
// their content.
func newHome(t *testing.T, sh []string, files ...string) *home {
	t.Helper()
	h := &home{t: t, sh: sh, dir: filepath.Join(testdir.New(t, "env"), "a b")}
	script, err := os.ReadFile("cache.env")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "w/.git/hdcache/cargo/", "w/.git/hdcache/gradle/") {
		dir, file := filepath.Split(h.dir + "/" + name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if file == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(h.cache("env"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *home) cache(name string) string { return filepath.Join(h.dir, "w/.git/hdcache", name) }

// source runs a script, in which SOURCE stands for the line that sources env, and returns what it prints.
func (h *home) source(script string) string {
	h.t.Helper()
	line := `HDCACHE="$PWD/w/.git/hdcache"; . "$HDCACHE/env"`
	cmd := exec.Command(h.sh[0], append(slices.Clone(h.sh[1:]), "-euc", strings.ReplaceAll(script, "SOURCE", line))...)
	cmd.Dir, cmd.Env = h.dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(h.dir, "home")}, h.env...)
	if h.as != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: h.as, Gid: h.as}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// shows checks which files of the tools are in the cache: by name, the file that a program reads there.
func (h *home) shows(want map[string]string) {
	h.t.Helper()
	got := make(map[string]string)
	for _, tool := range []string{"cargo", "gradle"} {
		for _, name := range testdir.Names(h.t, h.cache(tool)) {
			name = filepath.Join(tool, name)
			data, err := os.ReadFile(h.cache(name))
			if info, statErr := os.Stat(h.cache(name)); statErr == nil && info.IsDir() {
				data, err = []byte(strings.Join(testdir.Names(h.t, h.cache(name)), " ")), nil
			}
			if got[name] = string(data); err != nil {
				got[name] = "nowhere"
			}
		}
	}
	if !maps.Equal(got, want) {
		h.t.Errorf("the cache has\n%v, want\n%v", got, want)
	}
}

// TestEnvKeepsConfiguration: what was configured for Cargo and Gradle before env was sourced stays in force, in any shell.
func TestEnvKeepsConfiguration(t *testing.T) {
	t.Parallel()
	cargo := []string{"home/.cargo/config.toml", "home/.cargo/credentials.toml", "home/.cargo/bin/"}
	gradle := []string{"home/.gradle/gradle.properties", "home/.gradle/init.gradle.kts", "home/.gradle/init.gradle", "home/.gradle/init.d/mirror.gradle", "home/.gradle/caches/"}
	const again = "SOURCE; SOURCE; set -- a; SOURCE"
	for _, tt := range []struct {
		name   string
		files  []string
		script string
		env    []string
		want   map[string]string
	}{
		{"Cargo", cargo, again, nil, map[string]string{
			"cargo/config.toml": "home/.cargo/config.toml", "cargo/credentials.toml": "home/.cargo/credentials.toml"}},
		{"Gradle", gradle, again, nil, map[string]string{
			"gradle/gradle.properties": "home/.gradle/gradle.properties", "gradle/init.gradle": "home/.gradle/init.gradle",
			"gradle/init.gradle.kts": "home/.gradle/init.gradle.kts", "gradle/init.d": "mirror.gradle"}},
		{"nothing", nil, again, nil, map[string]string{}},
		{"of the image", append(cargo, "image/config.toml", "gr/init.gradle"), again, []string{"CARGO_HOME=image", "GRADLE_USER_HOME=gr"},
			map[string]string{"cargo/config.toml": "image/config.toml", "gradle/init.gradle": "gr/init.gradle"}},
		{"empty variables", cargo, again, []string{"CARGO_HOME=", "GRADLE_USER_HOME="}, map[string]string{
			"cargo/config.toml": "home/.cargo/config.toml", "cargo/credentials.toml": "home/.cargo/credentials.toml"}},
		{"the name without .toml, which Cargo prefers", append(cargo, "home/.cargo/config"), again, nil, map[string]string{
			"cargo/config": "home/.cargo/config", "cargo/credentials.toml": "home/.cargo/credentials.toml"}},
		{"the cache has some", append(cargo, "w/.git/hdcache/cargo/config", "w/.git/hdcache/gradle/init.d/x", gradle[3]), again, nil, map[string]string{
			"cargo/config": "w/.git/hdcache/cargo/config", "cargo/credentials.toml": "home/.cargo/credentials.toml", "gradle/init.d": "x"}},
		{"no home", cargo, "unset HOME; " + again, nil, map[string]string{}},
		{"an empty home", cargo, "HOME=; " + again, nil, map[string]string{}},
		{"home in the work tree", append(cargo, "w/.cargo/config.toml"), "HOME=$PWD/w; " + again, nil, map[string]string{
			"cargo/config.toml": "w/.cargo/config.toml"}},
		{"home in the cache", []string{"w/.git/hdcache/.cargo/config.toml"}, "HOME=$PWD/w/.git/hdcache; " + again, nil, map[string]string{
			"cargo/config.toml": "w/.git/hdcache/.cargo/config.toml"}},
		{"the cache is the home already", []string{"w/.git/hdcache/cargo/config.toml"}, `CARGO_HOME=$PWD/w/.git/hdcache/cargo; ` + again, nil, map[string]string{
			"cargo/config.toml": "w/.git/hdcache/cargo/config.toml"}},
		{"a link of another container", cargo, `ln -s /no/such/file w/.git/hdcache/cargo/config.toml; ln -s config w/.git/hdcache/cargo/config; ` + again, nil,
			map[string]string{"cargo/config": "nowhere", "cargo/config.toml": "home/.cargo/config.toml", "cargo/credentials.toml": "home/.cargo/credentials.toml"}},
		{"the directories are gone", cargo, `rmdir w/.git/hdcache/*/; ` + again, nil, map[string]string{
			"cargo/config.toml": "home/.cargo/config.toml", "cargo/credentials.toml": "home/.cargo/credentials.toml"}},
		{"only the link is sourced", cargo, `ln -s .git/hdcache w/.hdcache; HDCACHE=$PWD/w/.hdcache; . "$HDCACHE/env"`, nil, map[string]string{
			"cargo/config.toml": "home/.cargo/config.toml", "cargo/credentials.toml": "home/.cargo/credentials.toml"}},
	} {
		for name, sh := range shells() {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := newHome(t, sh, tt.files...)
				h.env = tt.env
				out := h.source(tt.script + `; printf "%s" "$CARGO_HOME|$GRADLE_USER_HOME|$MAVEN_ARGS|$*"; set | grep ^hdcache_ || :`)
				if want := h.cache("cargo") + "|" + h.cache("gradle") + "|-Dmaven.repo.local=" + h.cache("maven") + "|"; strings.TrimSuffix(out, "a") != want {
					t.Errorf("says %q, want %q", out, want)
				}
				h.shows(tt.want)
			})
		}
	}
}

// TestEnvReadOnly: in a cache that can't be written, env sets the variables, and is silent.
func TestEnvReadOnly(t *testing.T) {
	t.Parallel()
	for name, sh := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, sh, "home/.cargo/config.toml", "home/.gradle/init.d/x")
			h.as = 64127
			if err := errors.Join(os.Remove(h.cache("gradle")), os.Chmod(h.cache("cargo"), 0o555)); err != nil {
				t.Fatal(err)
			}
			if got := h.source(`SOURCE; SOURCE; printf "%s" "$CARGO_HOME"`); got != h.cache("cargo") {
				t.Errorf("says %q", got)
			}
			h.shows(map[string]string{})
			if _, err := os.Lstat(h.cache("gradle")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory of Gradle: %v", err)
			}
		})
	}
}
