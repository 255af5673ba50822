// Package libraries opens workspaces with implementations of git that are not git: libgit2, which Cargo and Nix use,
// go-git, and dulwich.
//
// It is a module of its own, so that the plugin does not depend on go-git.
package libraries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// program is the plugin's program.
var program string

func TestMain(m *testing.M) {
	daemon.Main("libraries", nil, func(_, built string) (int, error) {
		program = built
		return m.Run(), nil
	})
}

// shape is a kind of volume, and the commands that make a plain clone of that kind.
type shape struct {
	name    string
	options map[string]string
	clone   []string
	then    [][]string
}

func shapes(commit string) []shape {
	return []shape{
		{"cold", map[string]string{"cold": "shallow", "ref": "feature/x"}, []string{"--depth=1", "--branch=feature/x"}, nil},
		{"full", nil, nil, nil},
		{"branch", map[string]string{"ref": "feature/x"}, []string{"--branch=feature/x"}, nil},
		{"tag", map[string]string{"ref": "v1"}, []string{"--branch=v1"}, nil},
		{"commit", map[string]string{"ref": commit}, nil, [][]string{{"checkout", "-q", commit}, {"branch", "-q", "-D", "main"}}},
		{"depth", map[string]string{"depth": "1"}, []string{"--depth=1", "--no-single-branch"}, nil},
		{"filter", map[string]string{"filter": "blob:none"}, []string{"--filter=blob:none"}, nil},
		{"depth and filter", map[string]string{"depth": "1", "filter": "blob:none"}, []string{"--depth=1", "--no-single-branch", "--filter=blob:none"}, nil},
		{"sparse", map[string]string{"sparse": "docs"}, []string{"--sparse"}, [][]string{{"sparse-checkout", "set", "docs"}}},
		{"sparse and filter", map[string]string{"sparse": "docs", "filter": "blob:none"}, []string{"--sparse", "--filter=blob:none"},
			[][]string{{"sparse-checkout", "set", "docs"}}},
		{"submodules", map[string]string{"submodules": "true"}, []string{"--recurse-submodules"}, nil},
		{"kept", map[string]string{"mode": "keep"}, nil, nil},
	}
}

// TestLibraries compares the answers of each library in a workspace of each shape with those in a plain clone. A library
// may refuse a workspace only if it refuses a sparse clone, where git itself writes extensions.worktreeConfig.
func TestLibraries(t *testing.T) {
	server := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 3, Branches: []string{"feature/x"}})
	sub := filepath.Join(testdir.New(t, "sub"), "work")
	testgit.Git(t, "/", "init", "-q", "--bare", "--initial-branch=main", server.Path("sub"))
	testgit.Git(t, "/", "clone", "-q", server.Path("sub"), sub)
	testgit.Git(t, sub, "commit", "-q", "--allow-empty", "-m", "one")
	testgit.Git(t, sub, "push", "-q", "origin", "HEAD:main")
	work := filepath.Join(filepath.Dir(sub), "r")
	testgit.Git(t, "/", "clone", "-q", server.Path("r"), work)
	commit := testgit.Git(t, work, "rev-parse", "HEAD~1")
	if err := os.WriteFile(filepath.Join(work, ".gitmodules"), []byte("[submodule \"s\"]\n\tpath = lib/s\n\turl = ../sub\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.Git(t, work, "add", ".gitmodules")
	testgit.Git(t, work, "update-index", "--add", "--cacheinfo", "160000,"+testgit.Git(t, sub, "rev-parse", "HEAD")+",lib/s")
	testgit.Git(t, work, "commit", "-q", "-m", "a submodule")
	testgit.Git(t, work, "tag", "-a", "-m", "one", "v1", "HEAD~2")
	testgit.Git(t, work, "push", "-q", "origin", "HEAD:main", "v1")
	if err := server.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}

	dir := testdir.New(t, "lib")
	d, err := daemon.Start(t, daemon.Config{Program: program, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Kill() })
	engine := daemon.Dial(daemon.Config{Dir: dir}.Socket())
	libraries := map[string]func(t *testing.T, dir, library string) string{"git": byGit, "libgit2": byPython, "dulwich": byPython, "go-git": byGoGit}
	for i, s := range shapes(commit) {
		t.Run(s.name, func(t *testing.T) {
			options := map[string]string{"repo": server.URL("r"), "cache": "off"}
			for k, v := range s.options {
				options[k] = v
			}
			ctx, name := t.Context(), fmt.Sprint("v", i)
			if err := engine.Create(ctx, name, options); err != nil {
				t.Fatal(err)
			}
			mounted, err := engine.Mount(ctx, name, "1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = engine.Unmount(context.WithoutCancel(ctx), name, "1") })
			plain := filepath.Join(testdir.New(t, "plain"), "r")
			testgit.Git(t, "/", append(append([]string{"clone", "-q"}, s.clone...), server.URL("r"), plain)...)
			for _, args := range s.then {
				testgit.Git(t, plain, args...)
			}
			places := []string{"."}
			if s.options["submodules"] != "" {
				places = append(places, "lib/s")
			}
			for library, read := range libraries {
				for _, place := range places {
					got, want := read(t, filepath.Join(mounted, place), library), read(t, filepath.Join(plain, place), library)
					if got != want || strings.HasPrefix(want, refused) && s.options["sparse"] == "" {
						t.Errorf("%s in %s\n got %s\nwant %s", library, place, got, want)
					}
				}
			}
		})
	}
}

// refused begins the answer of a library that can't open a repository.
const refused = "refused: "

// byGit returns what git finds in a repository.
func byGit(t *testing.T, dir, _ string) string {
	t.Helper()
	var answers []string
	for _, args := range [][]string{{"status", "--branch"}, {"for-each-ref"}, {"log", "--format=%H"}, {"log", "-g", "--format=%H"}} {
		answers = append(answers, testgit.Git(t, dir, args...))
	}
	return strings.Join(answers, "\n")
}

// byPython returns what a library for Python finds in a repository.
func byPython(t *testing.T, dir, library string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "read.py", library, dir).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return refused + strings.ReplaceAll(lines[len(lines)-1], dir, "DIR")
	}
	return string(out)
}

// byGoGit returns what go-git finds in a repository.
func byGoGit(_ *testing.T, dir, _ string) string {
	text, err := goGit(dir)
	if err != nil {
		return refused + err.Error()
	}
	return text
}

func goGit(dir string) (string, error) {
	r, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	head, err := r.Head()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, "head", head)
	refs, err := r.References()
	if err != nil {
		return "", err
	}
	var names []string
	if err := refs.ForEach(func(r *plumbing.Reference) error { names = append(names, r.String()); return nil }); err != nil {
		return "", err
	}
	slices.Sort(names) // their order is that of a directory
	fmt.Fprintln(&b, names)
	log, err := r.Log(&git.LogOptions{From: head.Hash()})
	if err != nil {
		return "", err
	}
	err = log.ForEach(func(c *object.Commit) error { fmt.Fprintln(&b, c.Hash); return nil })
	fmt.Fprintln(&b, "log", err) // it does not know where a shallow history ends
	tree, err := r.Worktree()
	if err != nil {
		return "", err
	}
	status, err := tree.Status()
	if err != nil {
		return "", err
	}
	config, err := r.Config()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, status, config.Remotes["origin"].URLs, len(config.Branches))
	return b.String(), nil
}
