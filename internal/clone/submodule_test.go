package clone

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testworld"
)

// A submodule that .gitmodules does not name is an empty directory, as after
// git clone --recurse-submodules. One that it names without a URL is an error, as with git.
func TestSubmodulesWithoutSection(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	for _, tt := range []struct {
		name, modules, want string
	}{
		{"no file", "", ""},
		{"a file that names another", "[submodule \"other\"]\n\tpath = other\n\turl = ../other\n", ""},
		{"a name alone", "[submodule \"sub\"]\n\turl = ../other\n", ""},
		{"no URL", "[submodule \"sub\"]\n\tpath = lib/sub\n", "no URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testworld.WithBothGits(t, func(t *testing.T, system string) {
				w := newWorld(t, system)
				if tt.modules != "" {
					w.Commit("main", gitserver.Change{Path: ".gitmodules", Content: tt.modules})
				}
				w.remote("read-tree", "main")
				w.remote("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",lib/sub")
				w.remote("update-ref", "refs/heads/main", w.remote("commit-tree", "-p", "main", "-m", "m", w.remote("write-tree")))
				plain := filepath.Join(testdir.New(t, "clone"), "plain")
				clone := exec.Command("git", "clone", "-q", "--recurse-submodules", w.Server.URL("r"), plain)
				clone.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1"}
				if out, err := clone.CombinedOutput(); (err == nil) != (tt.want == "") {
					t.Fatalf("git clone: %v: %s", err, out)
				}
				for _, value := range []string{"true", "recursive"} {
					s := w.spec("ref", "main", "submodules", value)
					co, err := w.clone(s).Prepare(t.Context(), s)
					if tt.want != "" {
						if err == nil || !strings.Contains(err.Error(), tt.want) {
							t.Errorf("submodules=%s: %v, want %q", value, err, tt.want)
						}
						continue
					}
					if err != nil {
						t.Fatalf("submodules=%s: %v", value, err)
					}
					defer co.Release()
					dir := w.Mount(co.Lower, 0)
					if !maps.Equal(testdir.Contents(t, dir), testdir.Contents(t, plain)) {
						t.Errorf("submodules=%s: other files than those of git clone", value)
					}
					for _, at := range []string{dir, plain} {
						if left := testdir.Names(t, filepath.Join(at, "lib")); !slices.Equal(left, []string{"sub"}) {
							t.Errorf("submodules=%s: %s/lib has %q, want the submodule's directory", value, at, left)
						}
						if left := testdir.Names(t, filepath.Join(at, "lib/sub")); len(left) > 0 {
							t.Errorf("submodules=%s: the directory in %s has %q", value, at, left)
						}
						if got := run(t, at, 0, "status", "--porcelain"); got != "" {
							t.Errorf("submodules=%s: status of %s: %q", value, at, got)
						}
						if got := run(t, at, 0, "submodule", "update", "--recursive"); got != "" {
							t.Errorf("submodules=%s: update in %s: %q, want nothing to do", value, at, got)
						}
					}
				}
			})
		})
	}
}
