package gitserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	spec := Spec{Seed: 7, Files: 500, Commits: 4, Changes: 10, Branches: []string{"feature/x", "release-1.0"}}
	path := filepath.Join(t.TempDir(), "app.git")
	head, err := Generate(path, spec)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		return must(t, path, append([]string{"-c", "core.quotePath=false"}, args...)...)
	}
	lines := func(s string) int { return strings.Count(s, "\n") + 1 }

	run("fsck", "--strict")
	tree := run("ls-tree", "-r", "main")
	if got, want := lines(tree), spec.Files+len(special); got != want {
		t.Errorf("got %d files, want %d", got, want)
	}
	for _, want := range []string{
		"100755 blob", "120000 blob", "docs/Grüße-世界.txt", "docs/with blanks.txt", "\tempty",
	} {
		if !strings.Contains(tree, want) {
			t.Errorf("the tree has no %q", want)
		}
	}
	for _, c := range []struct {
		name, got, want string
	}{
		{"HEAD", run("symbolic-ref", "HEAD"), "refs/heads/main"},
		{"history", run("rev-list", "--count", "main"), "5"},
		{"release-1.0's history", run("rev-list", "--count", "release-1.0"), "4"},
		{"v1.0.0", run("cat-file", "-t", "v1.0.0"), "tag"},
		{"nightly", run("rev-parse", "nightly"), head},
		{"feature/x is not merged", run("rev-list", "--count", "main..feature/x"), "1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
	for line := range strings.SplitSeq(run("ls-tree", "-r", "--format=%(objectsize) %(path)", "main", "src"), "\n") {
		if size, path, _ := strings.Cut(line, " "); len(size) < 3 || len(size) > 4 || size > "8200" && len(size) == 4 {
			t.Errorf("%s has %s bytes", path, size)
		}
	}

	again, err := Generate(filepath.Join(t.TempDir(), "app.git"), spec)
	if err != nil || again != head {
		t.Errorf("the same spec made %s, %v, want %s", again, err, head)
	}
	if _, err := Generate(path, spec); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing repository: got %v, want %v", err, os.ErrExist)
	}
}

func TestGenerateLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.git")
	if _, err := Generate(path, Spec{Seed: 3, Files: 50, Commits: 30, Changes: 1, Lines: true}); err != nil {
		t.Fatal(err)
	}
	must(t, path, "fsck", "--strict")
	for line := range strings.SplitSeq(must(t, path, "log", "--no-renames", "--numstat", "--format=", "-n30", "main"), "\n") {
		if line != "" && !strings.HasPrefix(line, "1\t1\tsrc/") {
			t.Errorf("%q, want a commit that replaces a line", line)
		}
	}
}

func TestGenerateWithoutFiles(t *testing.T) {
	if _, err := Generate(filepath.Join(t.TempDir(), "app.git"), Spec{Commits: 1, Changes: 3, Branches: []string{"b"}}); err != nil {
		t.Error(err)
	}
}

func TestCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.git")
	head, err := Generate(path, Spec{Seed: 1, Files: 10})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		branch, ref, parent string
		changes             []Change
	}{
		{"main", "refs/heads/main", head, []Change{{Path: "README.md", Content: "new\n"}, {Path: "empty", Delete: true}}},
		{"main", "refs/heads/main", "", nil},
		{"new", "refs/heads/new", "", []Change{{Path: `odd "name" \`, Content: "x", Mode: "100755"}}},
		{"refs/pull/7/head", "refs/pull/7/head", "", []Change{{Path: "a", Content: "a"}}},
	}
	for _, c := range cases {
		sha, err := Commit(path, c.branch, c.changes...)
		if err != nil {
			t.Errorf("%s: %v", c.branch, err)
			continue
		}
		if got := must(t, path, "rev-parse", c.ref); got != sha {
			t.Errorf("%s is at %s, want %s", c.ref, got, sha)
		}
		if c.parent != "" {
			if got := must(t, path, "rev-parse", sha+"^"); got != c.parent {
				t.Errorf("the parent is %s, want %s", got, c.parent)
			}
		}
	}
	if got := must(t, path, "show", "main:README.md"); got != "new" {
		t.Errorf("README.md is %q", got)
	}
	if _, err := client(t, path, "cat-file", "-e", "main:empty"); err == nil {
		t.Error("the deleted file is there")
	}
	must(t, path, "fsck", "--strict")

	if _, err := Commit(path, "bad..name"); err == nil {
		t.Error("a bad branch name was taken")
	}
}
