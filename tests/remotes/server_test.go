package remotes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/sshserver"
)

// app is the repository on the servers.
const app = "team/app"

// remote is a server with one repository.
type remote struct {
	*gitserver.Server
	url, head string
}

// serve starts an HTTP server for one test.
func serve(t *testing.T) remote {
	t.Helper()
	return serveWith(t, gitserver.Start)
}

// serveTLS starts an HTTPS server, whose certificate has flaws.
func serveTLS(t *testing.T, flaws ...gitserver.Flaw) remote {
	t.Helper()
	return serveWith(t, func(dir string) (*gitserver.Server, error) { return gitserver.StartTLS(dir, flaws...) })
}

func serveWith(t *testing.T, start func(dir string) (*gitserver.Server, error)) remote {
	t.Helper()
	s, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return remote{s, s.URL(app), generate(t, s.Path(app))}
}

// serveSSH starts an ssh server.
func serveSSH(t *testing.T) (s *sshserver.Server, url, head string) {
	t.Helper()
	s, err := sshserver.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Logf("sshd:\n%s", s.Log())
		}
	})
	return s, s.URL(app), generate(t, s.Path(app))
}

// generate makes the repository. Its pack has about 200 KB.
func generate(t *testing.T, path string) (head string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	head, err := gitserver.Generate(path, gitserver.Spec{Seed: 1, Files: 300, Commits: 5, Changes: 10, Branches: []string{"release"}})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// commit adds a commit on the server, as if another user pushed it, and returns the commit.
func (r remote) commit(t *testing.T, branch string) string {
	t.Helper()
	id, err := gitserver.Commit(r.Path(app), branch, gitserver.Change{Path: "changed", Content: t.Name() + branch})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
