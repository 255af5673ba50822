package kubernetes

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// The repositories of the git server.
const (
	appRepo     = "app"     // 400 files
	largeRepo   = "large"   // 10,000 files
	privateRepo = "private" // needs login
	depsRepo    = "deps"    // made by prepared, with a lock file
)

// login is that of the private repository. The user is the one that the driver sends with a token.
var login = gitserver.Login{User: "x-access-token", Password: "a token of the tests"}

// remote is a git server on the node's address, with the heads of its repositories.
type remote struct {
	*gitserver.Server
	dir   string
	heads map[string]string
}

// newRemote makes a git server with its repositories.
func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{Server: testgit.Serve(t), dir: t.TempDir(), heads: make(map[string]string)}
	for name, files := range map[string]int{appRepo: 400, largeRepo: 10000, privateRepo: 20} {
		r.heads[name] = testgit.Generate(t, r.Server, name, gitserver.Spec{Seed: 1, Files: files, Commits: 3, Changes: 5})
	}
	r.Protect(privateRepo, login)
	return r
}

// serveRemote serves the repositories to the machine. A reboot ends the network, and needs it again.
func (w *world) serveRemote() error {
	l, err := w.listen(80)
	if err != nil {
		return err
	}
	go http.Serve(l, w.remote)
	return nil
}

// urlOf returns the URL of a repository for the driver.
func urlOf(repo string) string { return "http://" + nodeAddress + "/" + repo }

// portrait prints a line for each file of a checkout, with its hash.
const portrait = "find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum"

// want returns the portrait of the newest commit of a repository, made with a plain git clone.
func (r *remote) want(t *testing.T, repo string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plain")
	testgit.Git(t, "", "clone", "--quiet", r.Path(repo), dir)
	cmd := exec.Command("sh", "-c", portrait)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), "LC_ALL=C")
	out, err := testgit.Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
