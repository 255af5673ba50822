package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// same compares the output of git commands in two work trees.
func same(t *testing.T, got, want string, commands ...string) {
	t.Helper()
	for _, c := range commands {
		args := strings.Fields(c)
		if got, want := testgit.Git(t, got, args...), testgit.Git(t, want, args...); got != want {
			t.Errorf("git %s\n got %s\nwant %s", c, got, want)
		}
	}
}

// plainClone runs git clone, and returns the directory.
func plainClone(t *testing.T, url string, options ...string) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "plain")
	testgit.Git(t, "/", append(append([]string{"clone", "-q"}, options...), url, dir)...)
	return dir
}

// content returns the content of a file, empty if the file does not exist.
func content(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// clean checks that git status reports no change.
func clean(t *testing.T, dir string) {
	t.Helper()
	if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status of %s: %q, want clean", dir, got)
	}
}

func TestShapesOfAnotherUser(t *testing.T) {
	t.Parallel()
	s := remote(t)
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{
		"repo": s.URL("sample"), "filter": "blob:none", "depth": "3", "sparse": "docs", "uid": "1000", "gid": "1000",
	})
	dir := p.mount("v", "1")
	// The engine mounts the workspace at a path that the user can reach. Make this path reachable.
	for up := filepath.Dir(dir); up != p.at.data; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"status", "--porcelain"}, {"log", "-p", "--all"}, {"sparse-checkout", "add", "src"}, {"fetch", "-q", "--unshallow"},
		{"commit", "-q", "--allow-empty", "-m", "mine"}, {"push", "-q", "origin", "HEAD:mine"},
		{"sparse-checkout", "disable"}, {"repack", "-q", "-a", "-d"}, {"status", "--porcelain"},
	} {
		got := testgit.GitAs(t, 1000, dir, args...)
		if args[0] == "status" && got != "" {
			t.Errorf("status: %q, want clean", got)
		}
	}
}

func TestShapesLiveSideBySide(t *testing.T) {
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	shapes := []map[string]string{
		{}, {"depth": "1"}, {"depth": "2"}, {"filter": "blob:none"}, {"sparse": "docs"},
		{"depth": "1", "filter": "blob:none", "sparse": "src/area00"},
	}
	for round := range 2 {
		for i, shape := range shapes {
			name := "v" + strconv.Itoa(i)
			if round == 0 {
				shape["repo"] = url
				p.create(name, shape)
			}
			dir := p.mount(name, strconv.Itoa(round))
			clean(t, dir)
			if got, want := testgit.Git(t, dir, "rev-parse", "HEAD"), testgit.Git(t, s.Path("sample"), "rev-parse", "main"); got != want {
				t.Errorf("%v: at %s, want %s", shape, got, want)
			}
			p.unmount(name, strconv.Itoa(round))
		}
		if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "docs/pushed", Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, store := range p.glob("clones/*/*/store/*") {
		got = append(got, filepath.Base(store))
	}
	want := []string{"blob-none.git", "depth-1-blob-none.git", "depth-1.git", "depth-2.git", "full.git"}
	if !slices.Equal(got, want) {
		t.Errorf("stores %q, want %q", got, want)
	}
}

// glob lists paths below the data directory, sorted.
func (p *process) glob(pattern string) []string {
	p.t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.at.data, pattern))
	if err != nil {
		p.t.Fatal(err)
	}
	return paths
}
