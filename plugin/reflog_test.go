package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// identity matches who made an entry of a reflog, and when.
var identity = regexp.MustCompile(`[^ ]+ <[^>]*> \d+ [+-]\d{4}\t`)

// reflogs returns the content of the reflogs of a .git by name, without who made the entries and when.
func reflogs(t *testing.T, gitDir string) map[string]string {
	t.Helper()
	logs := make(map[string]string)
	top := filepath.Join(gitDir, "logs")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			name, _ := filepath.Rel(top, path)
			logs[name] = identity.ReplaceAllString(string(data), "\t")
			return err
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return logs
}

// TestReflogsMatchGitClone compares the reflogs of workspaces with those of plain clones, and the answers of commands that
// read them.
func TestReflogsMatchGitClone(t *testing.T) {
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	testgit.Git(t, s.Path("sample"), "tag", "v1", "main~1")
	testgit.Git(t, s.Path("sample"), "tag", "-a", "-m", "two", "v2", "main~2")
	commit := testgit.Git(t, s.Path("sample"), "rev-parse", "main~3")
	p := start(t, scratch(t))
	for _, tt := range []struct {
		name    string
		options map[string]string
		clone   []string
		then    []string // a command in the plain clone
		without string   // a reflog that only the plain clone has
	}{
		{"cold", map[string]string{"cold": "shallow", "ref": "feature/x"}, []string{"--depth", "1", "--branch", "feature/x"}, nil, ""},
		{"default", nil, nil, nil, ""},
		{"branch", map[string]string{"ref": "feature/x"}, []string{"--branch", "feature/x"}, nil, ""},
		{"tag", map[string]string{"ref": "v1"}, []string{"--branch", "v1"}, nil, ""},
		{"annotated", map[string]string{"ref": "v2"}, []string{"--branch", "v2"}, nil, ""},
		{"commit", map[string]string{"ref": commit}, nil, []string{"checkout", "-q", commit}, "refs/heads/main"},
		{"depth", map[string]string{"depth": "2"}, []string{"--depth", "2", "--no-single-branch"}, nil, ""},
		{"uid", map[string]string{"uid": "1000", "gid": "1000"}, nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.create(tt.name, mapWith(tt.options, "repo", url))
			dir, plain := p.mount(tt.name, "1"), plainClone(t, url, tt.clone...)
			if tt.then != nil {
				testgit.Git(t, plain, tt.then...)
			}
			got, want := reflogs(t, filepath.Join(dir, ".git")), reflogs(t, filepath.Join(plain, ".git"))
			delete(want, tt.without)
			if !maps.Equal(got, want) {
				t.Errorf("reflogs %q, want %q", got, want)
			}
			if tt.options["uid"] != "" {
				return // git refuses to run as another user
			}
			same(t, dir, plain, "rev-parse HEAD@{0}", "log -g --format=%H%gs", "status --branch", "describe --all --always", "rev-parse --symbolic-full-name @")
			if tt.without == "" {
				same(t, dir, plain, "branch")
			}
			testgit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
			if got, want := testgit.Git(t, dir, "rev-parse", "HEAD@{1}"), testgit.Git(t, plain, "rev-parse", "HEAD"); got != want {
				t.Errorf("before a commit HEAD was at %s, want %s", got, want)
			}
		})
	}
}

// TestReflogsOfSubmodules checks that git says where HEAD of a submodule is detached.
func TestReflogsOfSubmodules(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	nested := newRepo(t, s, "nested")
	at := nested.commit(map[string]string{"n": "1"}, nil)
	sub := newRepo(t, s, "sub")
	first := sub.commit(map[string]string{"f": "1", ".gitmodules": section("n", "n", "../nested")}, map[string]string{"n": at})
	last := sub.commit(map[string]string{"f": "2"}, nil)
	super := newRepo(t, s, "super")
	super.commit(map[string]string{".gitmodules": section("na me", "lib/x", "../sub") + section("tip", "tip", "../sub")},
		map[string]string{"lib/x": first, "tip": last})

	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("super"), "submodules": "recursive"})
	dir, plain := p.mount("v", "1"), plainClone(t, s.URL("super"), "--recurse-submodules")
	for _, place := range []string{".", "lib/x", "lib/x/n", "tip"} {
		got, want := filepath.Join(dir, place), filepath.Join(plain, place)
		same(t, got, want, "status --branch", "branch -vv", "log -g --format=%H%gs", "rev-parse HEAD@{0}")
		if strings.Contains(testgit.Git(t, got, "branch"), "(no branch)") {
			t.Errorf("git branch in %s: no branch", place)
		}
		gitDir := func(dir string) string { return testgit.Git(t, dir, "rev-parse", "--absolute-git-dir") }
		if got, want := reflogs(t, gitDir(got)), reflogs(t, gitDir(want)); !maps.Equal(got, want) {
			t.Errorf("reflogs in %s: %q, want %q", place, got, want)
		}
	}
}

// TestNoSubmoduleToBeHad mounts a repository whose only submodule can't be had, or is left out.
func TestNoSubmoduleToBeHad(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	super := newRepo(t, s, "super")
	at := super.commit(map[string]string{".gitmodules": section("m", "lib/m", "../missing")}, nil)
	super.commit(nil, map[string]string{"lib/m": at})
	p := start(t, scratch(t))
	for name, options := range map[string]map[string]string{
		"warn": {"submodules": "true", "submodule_errors": "warn"}, "left-out": {"submodules": "true,!lib/m"},
	} {
		p.create(name, mapWith(options, "repo", s.URL("super")))
		clean(t, p.mount(name, "1"))
	}
}
