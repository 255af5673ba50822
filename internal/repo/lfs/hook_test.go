package lfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// hooked makes a repository with Hook, and two remotes: origin, which has a commit with a file of git-lfs, and an empty one.
func hooked(t *testing.T, i testgit.Image) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "work")
	mustRun(t, i, top, "init", "-q", "-b", "main", dir)
	for _, name := range []string{"origin", "other"} {
		mustRun(t, i, top, "init", "-q", "--bare", "-b", "main", filepath.Join(top, name))
		mustRun(t, i, dir, "remote", "add", name, filepath.Join(top, name))
	}
	commit(t, i, dir, "a.bin", knownPointer)
	mustRun(t, i, dir, "push", "-q", "origin", "main")
	for _, name := range Hooks {
		path := filepath.Join(dir, ".git/hooks", name)
		writeFile(t, path, string(Hook()))
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func commit(t *testing.T, i testgit.Image, dir, name, content string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, name), content)
	mustRun(t, i, dir, "add", name)
	mustRun(t, i, dir, "commit", "-q", "-m", name)
}

// TestHookWithoutGitLFS: in an image without git-lfs, a push fails if its commits have a file of git-lfs that the remote
// lacks, and only then.
func TestHookWithoutGitLFS(t *testing.T) {
	t.Parallel()
	for _, shell := range testgit.Shells {
		i := testgit.Small(t, shell, "cut", "grep", "tr")
		for _, tt := range []struct {
			name   string
			change func(dir string)
			args   []string
			fails  bool
		}{
			{"nothing", func(string) {}, []string{"origin", "main"}, false},
			{"text", func(dir string) { commit(t, i, dir, "text", "text\n") }, []string{"origin", "main:new"}, false},
			{"a pointer", func(dir string) {
				commit(t, i, dir, "b c.bin", strings.Replace(knownPointer, "12345", "54321", 1)+"\n")
			}, []string{"origin", "main"}, true},
			{"a pointer that is gone again", func(dir string) {
				commit(t, i, dir, "b.bin", strings.Replace(knownPointer, "12345", "123456", 1))
				mustRun(t, i, dir, "rm", "-q", "b.bin")
				mustRun(t, i, dir, "commit", "-q", "-m", "gone")
			}, []string{"origin", "main"}, true},
			{"a pointer that moves", func(dir string) {
				mustRun(t, i, dir, "mv", "a.bin", "moved.bin")
				mustRun(t, i, dir, "commit", "-q", "-m", "moved")
			}, []string{"origin", "main"}, false},
			{"a text about a pointer", func(dir string) { commit(t, i, dir, "about", "a pointer:\n"+knownPointer) }, []string{"origin", "main"}, false},
			{"zeros", func(dir string) { commit(t, i, dir, "zeros", strings.Repeat("\x00", 500)+"\n") }, []string{"origin", "main"}, false},
			{"a branch is deleted", func(dir string) { mustRun(t, i, dir, "push", "-q", "origin", "main:old") }, []string{"origin", ":old"}, false},
			{"one is deleted, another has a pointer", func(dir string) {
				mustRun(t, i, dir, "push", "-q", "origin", "main:a")
				commit(t, i, dir, "b.bin", strings.Replace(knownPointer, "12345", "123456", 1))
			}, []string{"origin", ":a", "main:z"}, true},
			{"the history, to another remote", func(dir string) { commit(t, i, dir, "text", "text\n") }, []string{"other", "main"}, true},
			{"the history, without the check", func(string) {}, []string{"--no-verify", "other", "main"}, false},
		} {
			t.Run(shell+" "+tt.name, func(t *testing.T) {
				dir := hooked(t, i)
				tt.change(dir)
				out, err := i.Run(0, dir, append([]string{"push", "-q"}, tt.args...)...)
				if (err != nil) != tt.fails || err != nil && !strings.Contains(err.Error(), "install it in this image") || out != "" {
					t.Errorf("got %q, %v, want an error: %v", out, err, tt.fails)
				}
			})
		}
	}
	i := testgit.Small(t, "dash", "tr")
	if out, err := i.Run(0, hooked(t, i), "push", "-q", "other", "main"); err == nil || !strings.Contains(err.Error(), "install git-lfs or cut") {
		t.Errorf("without cut: %q, %v", out, err)
	}
}

// TestHookGivesWay: git-lfs gets the call where it is installed, can put its own hooks in the place of ours, and a
// core.hooksPath of the image comes first.
func TestHookGivesWay(t *testing.T) {
	t.Parallel()
	small := testgit.Small(t, "dash")
	program := filepath.Join(small.Path, "git-lfs")
	dir := hooked(t, small)
	writeFile(t, program, "#!/bin/sh\necho \"$*\" >>'"+dir+"/log'\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, small, dir, "commit", "-q", "--allow-empty", "-m", "empty")
	mustRun(t, small, dir, "push", "-q", "other", "main")
	mustRun(t, small, dir, "checkout", "-q", "-b", "new")
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	for _, call := range []string{"post-commit\n", "pre-push other ", "post-checkout "} {
		if err != nil || !strings.Contains(string(log), call) {
			t.Errorf("git-lfs was called with %q, %v: it lacks %q", log, err, call)
		}
	}

	installed := testgit.Image{Path: os.Getenv("PATH")}
	dir = hooked(t, installed)
	mustRun(t, installed, dir, "lfs", "install", "--local")
	for _, name := range Hooks {
		if data, err := os.ReadFile(filepath.Join(dir, ".git/hooks", name)); err != nil || !strings.HasPrefix(string(data), "#!") {
			t.Errorf("%s is %q, %v, want git-lfs's", name, data, err)
		}
	}

	dir = hooked(t, small)
	writeFile(t, filepath.Join(dir, "hooks/pre-push"), "#!/bin/sh\necho a hook of the image >&2\nexit 1\n")
	if err := os.Chmod(filepath.Join(dir, "hooks/pre-push"), 0o755); err != nil {
		t.Fatal(err)
	}
	small.Config = []string{"-c", "core.hooksPath=" + dir + "/hooks"}
	if out, err := small.Run(0, dir, "push", "-q", "other", "main"); err == nil || !strings.Contains(err.Error(), "a hook of the image") {
		t.Errorf("got %q, %v", out, err)
	}
}
