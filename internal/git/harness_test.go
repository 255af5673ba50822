package git

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

// fetcher is the uid that fetches in these tests.
const fetcher = 64123

// newGit returns a Git for http and https that fetches as fetcher.
func newGit(t testing.TB) *Git { return newGitIn(t, "") }

// newGitIn is newGit with the git of a root filesystem; empty means the machine's.
func newGitIn(t testing.TB, root string) *Git {
	t.Helper()
	program := "/usr/bin/git"
	if root == "" {
		var err error
		if program, err = exec.LookPath("git"); err != nil {
			t.Fatal(err)
		}
	}
	g, err := New(Config{Program: program, Root: root, UID: fetcher, GID: fetcher, Schemes: []string{"http", "https"}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// withBothGits runs a test with the machine's git, and with the one that is shipped.
func withBothGits(t *testing.T, f func(t *testing.T, g *Git)) {
	t.Run("machine", func(t *testing.T) { f(t, newGit(t)) })
	t.Run("rootfs", func(t *testing.T) { f(t, newGitIn(t, testroot.New(t))) })
}

func scratch(t testing.TB) string { return testgit.Scratch(t, "") }

func owned(t testing.TB, uid int) string { return testgit.Owned(t, "", uid) }

// store makes an empty store.
func store(t *testing.T, g *Git) string {
	t.Helper()
	return testgit.Store(t, g.config.Root, fetcher, gitref.SHA1)
}

// remote starts a server with one small repository, "r".
func remote(t testing.TB) *gitserver.Server {
	t.Helper()
	return testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 120, Commits: 3, Changes: 5, Branches: []string{"feature/x"}})
}

// everything has the refspecs of all branches and tags.
var everything = []string{"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"}

// gitAt runs git on a bare repository, outside of the sandbox, and returns its output.
func gitAt(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return testgit.Git(t, "", append([]string{"--git-dir=" + dir}, args...)...)
}

// leftovers lists the files that a killed git leaves in a store.
func leftovers(t *testing.T, store string) []string {
	t.Helper()
	var list []string
	if err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".lock") || strings.HasPrefix(d.Name(), "tmp_")) {
			list = append(list, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// processes returns the names of the processes of a uid whose arguments or environment have one of some texts. Other
// tests on the machine run git as the same uid.
func processes(uid int, texts ...string) (names []string) {
	for _, pid := range proc.All() {
		read := func(file string) string {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // empty if the process has ended
			return string(data)
		}
		status, about := read("status"), read("cmdline")+read("environ")
		if !strings.Contains(status, fmt.Sprintf("\nUid:\t%d\t", uid)) || strings.Contains(status, "\nState:\tZ") {
			continue
		}
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(about, text) }) {
			names = append(names, strings.TrimPrefix(strings.SplitN(status, "\n", 2)[0], "Name:\t"))
		}
	}
	return names
}
