package differential

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestDamage checks that compare finds each kind of difference.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	testgit.Generate(t, server, "damage", gitserver.Spec{Seed: 2, Files: 20, Commits: 3, Changes: 2, Branches: []string{"x"}})
	dir := testdir.New(t, "damage")
	clone := func(name string) string {
		t.Helper()
		to := filepath.Join(dir, name)
		testgit.Git(t, "/", "clone", "-q", server.URL("damage"), to)
		return to
	}
	plain := clone("plain")
	if text, err := compare(clone("equal"), plain); text != "" || err != nil {
		t.Errorf("two clones differ: %s, %v", text, err)
	}
	git := func(args ...string) func(dir string) error {
		return func(dir string) error { testgit.Git(t, dir, args...); return nil }
	}
	for _, tt := range []struct {
		name   string
		damage func(dir string) error
		want   string
	}{
		{"content", func(dir string) error { return os.WriteFile(filepath.Join(dir, "build.sh"), nil, 0o755) }, "files:"},
		{"mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "README.md"), 0o600) }, "files:"},
		{"new", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.log"), nil, 0o644) }, "status:"},
		{"index", git("update-index", "--chmod=+x", "README.md"), "index:"},
		{"ref", git("update-ref", "refs/remotes/origin/x", "HEAD"), "refs:"},
		{"tag", git("tag", "-d", "v1.0.0"), "refs:"},
		{"HEAD", git("checkout", "-q", "--detach"), "status:"},
		{"shallow", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git/shallow"), []byte(testgit.Git(t, dir, "rev-parse", "HEAD")+"\n"), 0o644)
		}, "shallow:"},
		{"lost", func(dir string) error { return os.Remove(loosen(t, dir, "HEAD~1:README.md")) }, "objects:"},
		{"a tree that is lost", func(dir string) error { return os.Remove(loosen(t, dir, "HEAD~2^{tree}")) }, "fsck:"},
		{"wrong", func(dir string) error {
			wrong, err := os.ReadFile(loosen(t, dir, "HEAD~1^{tree}"))
			if err != nil {
				return err
			}
			return os.WriteFile(loosen(t, dir, "HEAD~2^{tree}"), wrong, 0o444)
		}, "fsck:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			damaged := clone(tt.name)
			if err := tt.damage(damaged); err != nil {
				t.Fatal(err)
			}
			if got, err := compare(damaged, plain); err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("found %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// loosen unpacks all objects of a repository, and returns the path of one of them.
func loosen(t *testing.T, dir, object string) string {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, ".git/objects/pack/*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		moved := filepath.Join(dir, ".git/moved.pack")
		if err := os.Rename(pack, moved); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(moved)
		if err != nil {
			t.Fatal(err)
		}
		cmd := testgit.Command(dir, "unpack-objects", "-q")
		cmd.Stdin = in
		_, err = testgit.Run(cmd)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	id := testgit.Git(t, dir, "rev-parse", object)
	return filepath.Join(dir, ".git/objects", id[:2], id[2:])
}
