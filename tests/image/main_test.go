// Package image tests the image of the plugin in a run: that it holds no program that is never
// started, and which capabilities the plugin keeps. It needs build/plugin, which make plugin makes.
package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/sshserver"
	"github.com/helmdeck/repos/tests/built"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/shipped"
	"github.com/helmdeck/repos/tests/testgit"
)

var scratch, program string

func TestMain(m *testing.M) {
	daemon.Main("image", nil, func(dir, path string) (int, error) {
		scratch, program = dir, path
		if err := built.Check(built.Plugin); err != nil {
			return 1, err
		}
		return m.Run(), nil
	})
}

// start runs the plugin in a root filesystem, with exactly the capabilities that an engine gives it.
func start(t *testing.T, name, filesystem string) *shipped.Plugin {
	t.Helper()
	p, err := shipped.Start(t, shipped.Config{
		Program: program, Filesystem: filesystem, Dir: filepath.Join(scratch, name), Memory: 2 << 30, Env: []string{"ALLOW_SCHEMES=ssh"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", p.Log())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// copyImage copies the image's root filesystem.
func copyImage(t *testing.T, name string) string {
	t.Helper()
	to := filepath.Join(scratch, name)
	if out, err := exec.Command("cp", "-a", "../../build/plugin/rootfs", to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// mount creates a volume and mounts it once.
func mount(t *testing.T, p *shipped.Plugin, volume string, options map[string]string) (dir string) {
	t.Helper()
	if err := p.Create(t.Context(), volume, options); err != nil {
		t.Fatal(err)
	}
	dir, err := p.Mount(t.Context(), volume, volume)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// serveSSH starts an ssh server with a repository, whose URL it returns, and gives the plugin what
// it needs to fetch from it.
func serveSSH(t *testing.T, p *shipped.Plugin) (url string) {
	t.Helper()
	s, err := sshserver.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	path := s.Path("app")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := gitserver.Generate(path, gitserver.Spec{Seed: 1, Files: 10, Commits: 2, Changes: 2}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]api.PutCredential{
		"key":  {Kind: api.SSHKey, Scope: "ssh://git@" + s.Address(), Secret: string(s.ClientKey())},
		"host": {Kind: api.KnownHosts, Scope: "ssh://" + s.Address(), Secret: s.KnownHosts()},
	} {
		if err := p.Admin.PutCredential(t.Context(), name, c); err != nil {
			t.Fatal(err)
		}
	}
	return s.URL("app")
}

// serveHTTP starts a server with the repository "app".
func serveHTTP(t *testing.T) *gitserver.Server {
	t.Helper()
	return testgit.Remote(t, "app", gitserver.Spec{Seed: 1, Files: 10, Commits: 2, Changes: 2})
}
