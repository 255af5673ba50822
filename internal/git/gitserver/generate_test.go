package gitserver

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// A commit changes a part of a file, the files grow, and few of them change often, so that their
// versions are long chains of deltas.
func TestGenerateGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.git")
	if _, err := Generate(path, Spec{Seed: 3, Files: 50, Commits: 300, Changes: 1, Grow: true}); err != nil {
		t.Fatal(err)
	}
	must(t, path, "fsck", "--strict")
	var added, removed, whole int
	changes := map[string]int{}
	for line := range strings.SplitSeq(must(t, path, "log", "--no-renames", "--numstat", "--format=", "-n300", "main"), "\n") {
		var plus, minus int
		var name string
		if n, err := fmt.Sscan(line, &plus, &minus, &name); n < 3 {
			t.Fatalf("%q: %v", line, err)
		}
		if minus > 7 {
			whole++
		}
		added, removed, changes[name] = added+plus, removed+minus, changes[name]+1
	}
	most := slices.Max(slices.Collect(maps.Values(changes)))
	if whole > 0 || added < 2*removed || most < 300/50*3 {
		t.Errorf("%d changes of more than seven lines, %d lines added, %d removed, a file changed %d times", whole, added, removed, most)
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
