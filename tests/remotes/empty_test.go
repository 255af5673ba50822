package remotes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// TestEmptyOverSSH mounts an empty repository over ssh, where git alone can ask for the branch that
// HEAD is at, and mounts it again after the first push, and after the branch was deleted.
func TestEmptyOverSSH(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s, _, _ := serveSSH(t)
	path := s.Path("team/empty")
	testgit.GitAny(t, "/", "init", "-q", "--bare", path)
	testgit.GitAny(t, path, "symbolic-ref", "HEAD", "refs/heads/trunk")
	p := start(t)
	p.putCredential(key(s, s.ClientKey()))
	p.putCredential(knownHosts(s, s.KnownHosts()))
	for _, options := range [][]string{nil, {"depth=1"}, {"cold=shallow"}, {"filter=blob:none"}} {
		name := "v"
		if len(options) > 0 {
			name = options[0][:4]
		}
		if err := p.create(name, append(options, "repo="+s.URL("team/empty"))...); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"1", "2"} { // the second one finds what the first one has fetched
			dir, err := p.mount(name, id)
			if err != nil {
				t.Fatal(err)
			}
			if got := testgit.GitAny(t, dir, "status", "--porcelain=v2", "--branch"); got != "# branch.oid (initial)\n# branch.head trunk\n# branch.upstream origin/trunk" {
				t.Errorf("%s: %s", options, got)
			}
		}
	}
	connections := s.Stats().Connections
	dir, err := p.mount("v", "3")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Connections - connections; n != 1 {
		t.Errorf("a later mount made %d connections, want 1", n)
	}

	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.GitAny(t, dir, "add", "f")
	testgit.GitAny(t, dir, "commit", "-qm", "first")
	first := testgit.GitAny(t, dir, "rev-parse", "HEAD")
	testgit.GitAny(t, dir, "push", "-q", path, "HEAD")
	for _, name := range []string{"v", "dept", "cold", "filt"} {
		if err := p.mountAndCheck(name, first); err != nil {
			t.Errorf("%s after the first push: %v", name, err)
		}
	}
	testgit.GitAny(t, path, "update-ref", "-d", "refs/heads/trunk")
	for _, name := range []string{"v", "dept", "cold", "filt"} {
		dir, err := p.mount(name, "4")
		if err != nil {
			t.Fatal(err)
		}
		if got := testgit.GitAny(t, dir, "status", "--porcelain=v2", "--branch"); got != "# branch.oid (initial)\n# branch.head trunk\n# branch.upstream origin/trunk" {
			t.Errorf("%s is empty again: %s", name, got)
		}
	}
	addLine("ssh: repository empty", "")
}
