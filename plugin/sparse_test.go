package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

func TestSparseMatchesGit(t *testing.T) {
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dirs, filter string }{
		{"one directory", "docs", "none"},
		{"a deep one", "src/area00/part01", "blob:none"},
		{"several, one below another", "src/area00,src/area00/internal/part01,docs", "none"},
		{"several, without blobs", "src/area00,src/area00/internal/part01,docs", "blob:none"},
		{"one that does not exist", "docs,no/such", "blob:none"},
		{"none that exists", "nowhere", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			short.OneOf(t, 4)
			filter := c.filter
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": url, "sparse": c.dirs, "filter": filter})
			dir := p.mount("v", "1")
			clone := []string{"--sparse"}
			if filter != "none" {
				clone = append(clone, "--filter="+filter)
			}
			plain := plainClone(t, url, clone...)
			testgit.Git(t, plain, append([]string{"sparse-checkout", "set"}, strings.Split(c.dirs, ",")...)...)
			clean(t, dir)
			same(t, dir, plain, "ls-files -t", "ls-files -s", "sparse-checkout list",
				"config core.sparseCheckout", "config core.sparseCheckoutCone", "config extensions.worktreeConfig",
				"config core.repositoryformatversion")
			for _, file := range []string{".git/info/sparse-checkout", ".git/config.worktree"} {
				if got, want := content(t, dir, file), content(t, plain, file); got != want {
					t.Errorf("%s:\n%s\nwant:\n%s", file, got, want)
				}
			}
			if got, want := files(t, dir), files(t, plain); !slices.Equal(got, want) {
				t.Errorf("files: %q, want %q", got, want)
			}
			if filter != "none" {
				if got, want := missing(t, dir, "--all"), missing(t, plain, "--all"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
					t.Errorf("%d objects are missing, want the %d that git leaves", len(got), len(want))
				}
			}
			for _, tree := range p.glob("clones/*/*/trees/*/.git") {
				if got, want := files(t, tree), []string{"index", "info/sparse-checkout"}; !slices.Equal(got, want) {
					t.Errorf("a tree has %q in .git, want %q", got, want)
				}
			}

			// A volume without sparse gets the whole tree of the same commit.
			p.create("all", map[string]string{"repo": url, "filter": filter})
			all := p.mount("all", "1")
			same(t, all, plainClone(t, url), "ls-files -t", "status --porcelain")

			// git status shows an edit right after the mount. The container can add directories, and check out all.
			if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# SAMPLE\n\nA repository for trials.\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, want := testgit.Git(t, dir, "status", "--porcelain"), " M README.md"; got != want {
				t.Errorf("status after an edit: %q, want %q", got, want)
			}
			testgit.Git(t, dir, "checkout", "-q", "README.md")
			testgit.Git(t, dir, "sparse-checkout", "add", "src/area00/part00")
			testgit.Git(t, plain, "sparse-checkout", "add", "src/area00/part00")
			same(t, dir, plain, "ls-files -t", "sparse-checkout list", "status --porcelain")
			testgit.Git(t, dir, "sparse-checkout", "disable")
			testgit.Git(t, plain, "sparse-checkout", "disable")
			same(t, dir, plain, "ls-files -t", "status --porcelain")
			if got, want := files(t, dir), files(t, plain); !slices.Equal(got, want) {
				t.Errorf("%d files after sparse-checkout disable, want %d", len(got), len(want))
			}
		})
	}
}

func TestSparseWithTrackedCacheLink(t *testing.T) {
	t.Parallel()
	s := remote(t)
	if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: ".hdcache/mine", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "sparse": "docs", "cache_link": "true"})
	dir := p.mount("v", "1")
	clean(t, dir)
	if _, err := os.Lstat(filepath.Join(dir, ".hdcache")); !os.IsNotExist(err) {
		t.Errorf(".hdcache: %v, want none, because the repository tracks one outside of the cone", err)
	}
}

// files lists the files below dir, without those in .git.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && path != dir:
			return filepath.SkipDir
		case !d.IsDir():
			rel, err := filepath.Rel(dir, path)
			list = append(list, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
