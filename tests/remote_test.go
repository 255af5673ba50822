package tests

import (
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// remote is a git server with one repository.
type remote struct {
	*gitserver.Server
	url  string
	head string // the commit of main when the repository was made
}

// app is the name of the repository on the server.
const app = "app"

// newRemote starts a server with a sample repository, for one test.
func newRemote(t *testing.T) remote {
	t.Helper()
	server := testgit.Serve(t)
	head := testgit.Generate(t, server, app, gitserver.Spec{
		Seed: 1, Files: 400, Commits: 12, Changes: 10, Branches: []string{"feature/x", "release-1.0"},
	})
	return remote{server, server.URL(app), head}
}

// commit adds a commit on the server, as if another user pushed it, and returns its ID.
func (r remote) commit(t *testing.T, branch string, changes ...gitserver.Change) string {
	t.Helper()
	sha, err := gitserver.Commit(r.Path(app), branch, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// tip returns the commit of a ref on the server.
func (r remote) tip(t *testing.T, ref string) string {
	t.Helper()
	return hostGit(t, r.Path(app), "rev-parse", ref+"^{commit}")
}
