// Package libraries opens workspaces with implementations of git that are not git: libgit2, which Cargo and Nix use,
// go-git, and dulwich. It also packs workspaces with programs that do not ask git what to ignore.
//
// It is a module of its own, so that the plugin does not depend on go-git.
package libraries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
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
	repo    string                 // default: r
	places  []string               // of repositories in it, besides the top
	left    func(dir string) error // what a checkpoint that the volume begins with has changed, and the plain clone too
	now     func(dir string) error // what is done in both
}

func shapes(commit string) []shape {
	return []shape{
		{name: "cold", options: map[string]string{"cold": "shallow", "ref": "feature/x"}, clone: []string{"--depth=1", "--branch=feature/x"}},
		{name: "full"},
		{name: "branch", options: map[string]string{"ref": "feature/x"}, clone: []string{"--branch=feature/x"}},
		{name: "tag", options: map[string]string{"ref": "v1"}, clone: []string{"--branch=v1"}},
		{name: "commit", options: map[string]string{"ref": commit}, then: [][]string{{"checkout", "-q", commit}, {"branch", "-q", "-D", "main"}}},
		{name: "depth", options: map[string]string{"depth": "1"}, clone: []string{"--depth=1", "--no-single-branch"}},
		{name: "filter", options: map[string]string{"filter": "blob:none"}, clone: []string{"--filter=blob:none"}},
		{
			name: "depth and filter", options: map[string]string{"depth": "1", "filter": "blob:none"},
			clone: []string{"--depth=1", "--no-single-branch", "--filter=blob:none"},
		},
		{name: "sparse", options: map[string]string{"sparse": "docs"}, clone: []string{"--sparse"}, then: [][]string{{"sparse-checkout", "set", "docs"}}},
		{
			name: "sparse and filter", options: map[string]string{"sparse": "docs", "filter": "blob:none"},
			clone: []string{"--sparse", "--filter=blob:none"}, then: [][]string{{"sparse-checkout", "set", "docs"}},
		},
		{name: "submodules", options: map[string]string{"submodules": "true"}, clone: []string{"--recurse-submodules"}, places: []string{"lib/s"}},
		{
			name: "submodules of submodules", repo: "deep", options: map[string]string{"submodules": "recursive"},
			clone: []string{"--recurse-submodules"}, places: []string{"lib/s", "lib/s/lib/s"},
		},
		{name: "kept", options: map[string]string{"mode": "keep"}},
		{name: "shared", options: map[string]string{"mode": "shared"}},
		{name: "checkpoint", left: func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "text"), []byte("changed\n"), 0o644), os.WriteFile(filepath.Join(dir, "new"), []byte("new\n"), 0o644))
		}},
		{name: "LFS", repo: "lfs", clone: []string{
			"-c", "filter.lfs.clean=git-lfs clean -- %f", "-c", "filter.lfs.smudge=git-lfs smudge -- %f", "-c", "filter.lfs.required=true",
		}, now: func(dir string) error { // so that a library which does not know git-lfs looks into it in both
			at := time.Unix(1_000_000_000, 0)
			return os.Chtimes(filepath.Join(dir, "large.bin"), at, at)
		}},
		{name: "LFS pointers", repo: "lfs", options: map[string]string{"lfs": "false"}},
	}
}

// leave makes a checkpoint of a workspace in which change was made, and returns its ID.
func leave(t *testing.T, d *daemon.Daemon, options map[string]string, change func(dir string) error) (id string) {
	t.Helper()
	ctx, name := t.Context(), "left"
	if err := d.Create(ctx, name, options); err != nil {
		t.Fatal(err)
	}
	dir, err := d.Mount(ctx, name, "1")
	if err == nil {
		err = errors.Join(change(dir), d.Unmount(ctx, name, "1"))
	}
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the checkpoint", func() error {
		list, err := d.Admin.Checkpoints(ctx, api.Filter{Volume: name})
		if err == nil && len(list) == 1 {
			id = list[0].ID
		}
		return wait.Check(id != "", "%d checkpoints, %v", len(list), err)
	})
	return id
}

// addSubmodule makes a commit in the work tree work with the submodule of a repository at lib/s.
func addSubmodule(t *testing.T, work, repo, commit string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(work, ".gitmodules"), []byte("[submodule \"s\"]\n\tpath = lib/s\n\turl = ../"+repo+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.Git(t, work, "add", ".gitmodules")
	testgit.Git(t, work, "update-index", "--add", "--cacheinfo", "160000,"+commit+",lib/s")
	testgit.Git(t, work, "commit", "-q", "-m", "a submodule")
}

// TestLibraries compares the answers of each library in a workspace of each shape with those in a plain clone. A library
// may refuse a workspace only if it refuses a sparse clone, where git itself writes extensions.worktreeConfig.
func TestLibraries(t *testing.T) {
	server := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 3, Branches: []string{"feature/x"}})
	dir := testdir.New(t, "work")
	repo := func(name string) (work string) { // with one commit
		testgit.Git(t, "/", "init", "-q", "--bare", "--initial-branch=main", server.Path(name))
		work = filepath.Join(dir, name)
		testgit.Git(t, "/", "clone", "-q", server.Path(name), work)
		testgit.Git(t, work, "commit", "-q", "--allow-empty", "-m", "one")
		return work
	}
	sub, middle, deep := repo("sub"), repo("middle"), repo("deep")
	addSubmodule(t, middle, "sub", testgit.Git(t, sub, "rev-parse", "HEAD"))
	addSubmodule(t, deep, "middle", testgit.Git(t, middle, "rev-parse", "HEAD"))
	for _, of := range []string{sub, middle, deep} {
		testgit.Git(t, of, "push", "-q", "origin", "HEAD:main")
	}
	objects := new(lfsserver.Server)
	testgit.Git(t, "/", "init", "-q", "--bare", "--initial-branch=main", server.Path("lfs"))
	if _, _, err := objects.Commit(server.Path("lfs"), "main", map[string]string{"large.bin": "content\n"}); err != nil {
		t.Fatal(err)
	}
	server.Route("lfs", objects.Serve)
	work := filepath.Join(dir, "r")
	testgit.Git(t, "/", "clone", "-q", server.Path("r"), work)
	commit := testgit.Git(t, work, "rev-parse", "HEAD~1")
	if err := os.WriteFile(filepath.Join(work, "text"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.Git(t, work, "add", "text")
	addSubmodule(t, work, "sub", testgit.Git(t, sub, "rev-parse", "HEAD"))
	testgit.Git(t, work, "tag", "-a", "-m", "one", "v1", "HEAD~2")
	testgit.Git(t, work, "push", "-q", "origin", "HEAD:main", "v1")
	if err := server.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}

	d, err := daemon.Start(t, daemon.Config{Program: program, Dir: testdir.New(t, "lib")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Kill() })
	libraries := map[string]func(t *testing.T, dir, library string) string{"git": byGit, "libgit2": byPython, "dulwich": byPython, "go-git": byGoGit}
	for i, s := range shapes(commit) {
		t.Run(s.name, func(t *testing.T) {
			url := server.URL(cmp.Or(s.repo, "r"))
			options := map[string]string{"repo": url}
			maps.Copy(options, s.options)
			if s.left != nil {
				id := leave(t, d, maps.Clone(options), s.left)
				options["from"] = id
			}
			ctx, name := t.Context(), fmt.Sprint("v", i)
			if err := d.Create(ctx, name, options); err != nil {
				t.Fatal(err)
			}
			mounted, err := d.Mount(ctx, name, "1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Unmount(context.WithoutCancel(ctx), name, "1") })
			plain := filepath.Join(testdir.New(t, "plain"), "r")
			testgit.Git(t, "/", append(append([]string{"clone", "-q"}, s.clone...), url, plain)...)
			for _, args := range s.then {
				testgit.Git(t, plain, args...)
			}
			if s.left != nil {
				err = s.left(plain)
			}
			if s.now != nil {
				err = errors.Join(err, s.now(plain), s.now(mounted))
			}
			if err != nil {
				t.Fatal(err)
			}
			for library, read := range libraries {
				for _, place := range append([]string{"."}, s.places...) {
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
	var files []string
	for name, s := range status {
		files = append(files, fmt.Sprintf("%c%c %s", s.Staging, s.Worktree, name))
	}
	slices.Sort(files) // it is a map
	fmt.Fprintln(&b, files, config.Remotes["origin"].URLs, len(config.Branches))
	return b.String(), nil
}
