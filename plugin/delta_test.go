package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestUpdatesAreDeltas moves a branch through changes of every kind. Each Mount must have the same
// files as a clone of the new commit, and write only the changed files.
func TestUpdatesAreDeltas(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	first := p.mount("v", "first")
	trees, err := filepath.Glob(filepath.Join(p.at.data, "clones/default/*/trees"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("trees: %q, %v", trees, err)
	}
	var file string // a file that every commit has until a step deletes it
	for _, name := range strings.Split(testgit.Git(t, first, "ls-files"), "\n") {
		if strings.Count(name, "/") > 1 {
			file = name
		}
	}
	dir := filepath.Dir(file)
	type change = gitserver.Change
	steps := []struct {
		name    string
		changes []change
		whole   bool
	}{
		{"a file changes", []change{{Path: file, Content: "changed"}}, false},
		{"the same size", []change{{Path: file, Content: "CHANGED"}}, false},
		{"its mode changes", []change{{Path: file, Content: "CHANGED", Mode: "100755"}}, false},
		{"it becomes a symlink", []change{{Path: file, Content: "nowhere", Mode: "120000"}}, false},
		{"it goes", []change{{Path: file, Delete: true}}, false},
		{"it is back as a directory", []change{{Path: file + "/below", Content: "x"}}, false},
		{"its directory becomes a file", []change{{Path: dir, Delete: true}, {Path: dir, Content: "a file"}}, false},
		{"and a directory again", []change{{Path: dir, Delete: true}, {Path: dir + "/a/b/c", Content: "x"}}, false},
		{"a directory goes", []change{{Path: dir, Delete: true}}, false},
		{"attributes change", []change{{Path: ".gitattributes", Content: "*.crlf text eol=crlf\n"}, {Path: "x.crlf", Content: "a\nb\n"}}, true},
		{"a .hdcache is tracked", []change{{Path: ".hdcache", Content: "tracked"}}, false},
		{"and no more", []change{{Path: ".hdcache", Delete: true}}, false},
	}
	counted := len(steps)
	for i := range 16 { // enough for a chain that is flattened while more updates come
		steps = append(steps, struct {
			name    string
			changes []change
			whole   bool
		}{fmt.Sprint("update ", i), []change{{Path: "updated", Content: fmt.Sprint(i)}}, false})
	}
	wholes := 0
	for i, step := range steps {
		head, err := gitserver.Commit(s.Path("sample"), "main", step.changes...)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		before := names(t, trees[0])
		at := p.mount("v", fmt.Sprint(i))
		if got := testgit.Git(t, at, "rev-parse", "HEAD"); got != head {
			t.Errorf("%s: at %s, want %s", step.name, got, head)
		}
		if got := testgit.Git(t, at, "status", "--porcelain"); got != "" {
			t.Errorf("%s: status %q, want clean", step.name, got)
		}
		sameAsClone(t, s.URL("sample"), at)
		for name := range names(t, trees[0]) {
			if !before[name] && i < counted {
				if n := countFiles(t, filepath.Join(trees[0], name)); n > 100 {
					wholes++
				} else if step.whole {
					t.Errorf("%s: a layer of %d files, want a whole tree", step.name, n)
				}
			}
		}
		// git status shows an immediate edit of the same size.
		path := filepath.Join(at, "updated")
		if data, err := os.ReadFile(path); err == nil {
			if err := os.WriteFile(path, []byte(strings.Repeat("z", len(data))), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := testgit.Git(t, at, "status", "--porcelain"); got != " M updated" {
				t.Errorf("%s: status after an edit %q", step.name, got)
			}
		}
		p.unmount("v", fmt.Sprint(i))
	}
	if wholes != 1 { // the step that changes the attributes
		t.Errorf("%d of %d trees were built whole, want 1", wholes, counted)
	}
	p.waitFor("flattened a tree")
	last := p.mount("v", "last")
	if got := testgit.Git(t, last, "status", "--porcelain"); got != "" {
		t.Errorf("status after the flattening: %q, want clean", got)
	}
	sameAsClone(t, s.URL("sample"), last)
	p.unmount("v", "last")
	if got := testgit.Git(t, first, "status", "--porcelain"); got != "" {
		t.Errorf("the first workspace has changed: %q", got)
	}
	p.unmount("v", "first")
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]bool)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			m[e.Name()] = true
		}
	}
	return m
}

func countFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// sameAsClone compares the files of a workspace with those of a clone.
func sameAsClone(t *testing.T, url, dir string) {
	t.Helper()
	plain := filepath.Join(scratch(t), "plain")
	testgit.Git(t, "/", "clone", "-q", "--branch", "main", url, plain)
	out, err := exec.Command("diff", "-r", "--no-dereference", "--exclude=.git", plain, dir).CombinedOutput()
	if err != nil {
		t.Errorf("the files differ from a clone's: %v\n%s", err, out)
	}
	if got, want := testgit.Git(t, dir, "ls-files", "-s"), testgit.Git(t, plain, "ls-files", "-s"); got != want {
		t.Errorf("the index differs from a clone's")
	}
}
