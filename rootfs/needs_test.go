package rootfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bare makes a directory for PATH with the tools that every Debian has, docker, a go that says the given, and an apt-get
// that only notes what it is asked for in the returned file.
func bare(t *testing.T, goSays string) (path, asked string) {
	t.Helper()
	path, asked = t.TempDir(), filepath.Join(t.TempDir(), "asked")
	for _, tool := range []string{"awk", "bash", "cat", "grep", "head", "id", "ldd", "rm", "sort", "tr"} {
		target, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(path, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range map[string]string{
		"go":      goSays,
		"docker":  "exit 1",
		"apt-get": `[ "$1" != install ] || echo "$@" >>` + asked,
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path, asked
}

func needs(t *testing.T, path, part string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("rootfs/needs", part)
	cmd.Dir, cmd.Env = "..", append(env, "PATH="+path)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestNeeds checks that what a user runs does not install the tests' tools, and as a control that the script notices what
// is missing.
func TestNeeds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: only root installs packages")
	}
	for _, c := range []struct {
		part, env string
		want      string // of what this machine may have, but PATH has not
	}{
		{part: "build"}, {part: "install"},
		{part: "demo", want: "busybox-static git"},
		{part: "release", want: "git"},
		{part: "release", env: "KEY=key", want: "git openssh-client"},
	} {
		path, asked := bare(t, "echo go1.99.0")
		if out, err := needs(t, path, c.part, c.env); err != nil {
			t.Fatalf("%s: %v: %s", c.part, err, out)
		}
		data, err := os.ReadFile(asked)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		var got []string
		for _, word := range strings.Fields(string(data)) {
			if !slices.Contains([]string{"install", "-o", "DPkg::Lock::Timeout=300", "-y", "-qq", "--no-install-recommends", "debian-archive-keyring", "ca-certificates"}, word) {
				got = append(got, word)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s installs %q, want %s", c.part, c.env, got, c.want)
		}
	}
}

// TestGoTooOld checks that an old Go is named as that: before 1.21 it can't read go.mod, and later it may be told not to
// fetch another version.
func TestGoTooOld(t *testing.T) {
	for says, want := range map[string]string{
		"echo go1.19.8": "go is too old, 1.19.8: install Go 1.26.0 or newer",
		"echo 'go: go.mod requires go >= 1.26.0 (running go 1.24.4; GOTOOLCHAIN=local)' >&2; exit 1": "go is too old: install Go 1.26.0 or newer (go: go.mod requires go >= 1.26.0",
		"echo go1.26.0": "",
	} {
		path, _ := bare(t, says)
		out, err := needs(t, path, "build")
		if (err != nil) != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s: got %q, %v; want %q", says, out, err, want)
		}
	}
}

// TestUsersTargets checks that the targets of users name the part of needs that they need, and as a control that those of
// tests need all.
func TestUsersTargets(t *testing.T) {
	for target, all := range map[string]bool{"install": false, "demo": false, "release": false, "plugin": false, "image": false, "test-hostile": true} {
		cmd := exec.Command("make", "-n", target)
		cmd.Dir, cmd.Env = "..", append(os.Environ(), "MAKEFLAGS=")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("make -n %s: %v", target, err)
		}
		if got := slices.Contains(strings.Split(string(out), "\n"), "rootfs/needs"); got != all {
			t.Errorf("%s needs what the tests need: %v, want %v; make -n says\n%s", target, got, all, out)
		}
	}
}
