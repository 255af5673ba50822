package bundle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/release/bundle"
	_ "github.com/helmdeck/repos/tests/environ"
)

// project makes a directory with a Makefile, and commits it.
func project(t *testing.T, makefile string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Makefile"), makefile)
	write(t, filepath.Join(dir, ".gitignore"), "build/\n")
	commit(t, dir)
	return dir
}

// commit makes dir a repository with one commit of all its files, always the same for the same files.
func commit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "all"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.invalid", "GIT_AUTHOR_DATE=2001-02-03T04:05:06Z",
			"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.invalid", "GIT_COMMITTER_DATE=2001-02-03T04:05:06Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func options(root string) bundle.Options {
	return bundle.Options{Root: root, Version: "1.2.3", Log: io.Discard}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in the error", err, want)
	}
}

func TestVersion(t *testing.T) {
	for version, good := range map[string]bool{
		"1.2.3": true, "0.0.1": true, "1.2.3-rc.1": true,
		"": false, "1.2": false, "v1.2.3": false, "1.2.3.4": false, "01.2.3": false, "1.2.3+build": false, "1.2.3-": false,
		"latest": false, "../1.2.3": false, "1.2.3 ": false, "1.2.3-a/b": false, "1.2.3'; echo": false,
	} {
		if err := bundle.CheckVersion(version); (err == nil) != good {
			t.Errorf("%q: got %v, want it accepted: %v", version, err, good)
		}
	}
}

// TestRefusedBeforeTheWork checks what is refused before anything is built. The Makefile fails, and as a control it is
// reached without these faults.
func TestRefusedBeforeTheWork(t *testing.T) {
	root := project(t, "rootfs:\n\t@exit 3\n")
	o := options(root)
	o.Version = "1.2"
	wantError(t, bundle.Make(t.Context(), o), `VERSION="1.2": want MAJOR.MINOR.PATCH`)
	o = options(root)
	o.Key = filepath.Join(root, "absent")
	wantError(t, bundle.Make(t.Context(), o), "KEY: want the path of a private ssh key")
	wantError(t, bundle.Make(t.Context(), options(root)), "make rootfs ARCH=amd64: exit status 2")

	write(t, filepath.Join(root, "new"), "")
	wantError(t, bundle.Make(t.Context(), options(root)), "allow them with DIRTY=1:\n?? new")
	o = options(root)
	o.Dirty = true
	wantError(t, bundle.Make(t.Context(), o), "make rootfs")
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	wantError(t, bundle.Make(t.Context(), o), `SOURCE_DATE_EPOCH="yesterday": want seconds since 1970`)
}

// TestInterrupted checks that an interrupted release leaves the earlier one, and nothing else.
func TestInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	root := project(t, "rootfs:\n\t@echo begun >started && cat never\n")
	earlier := filepath.Join(root, "build/release/1.2.3")
	if err := os.MkdirAll(earlier, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(earlier, "file"), "")
	for _, pipe := range []string{"started", "never"} {
		if err := syscall.Mkfifo(filepath.Join(root, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := options(root)
	o.Dirty = true
	ended := make(chan error, 1)
	go func() { ended <- bundle.Make(ctx, o) }()
	if _, err := os.ReadFile(filepath.Join(root, "started")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for dir, want := range map[string]string{filepath.Dir(earlier): "[1.2.3]", earlier: "[file]"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
	}
}
