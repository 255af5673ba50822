package quarantine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// fetcher is the uid that fetches in these tests. No other process runs as it.
const fetcher = 64131

// scene is a workspace without an overlay: a git layer, and the top of a work tree, whose .git
// begins as a copy of it.
type scene struct {
	t      *testing.T
	server *gitserver.Server
	q      *Quarantine
	layer  string // the layer's .git
	root   string
	base   string // the commit that it begins with
}

// newScene makes a scene of a new remote with the repository "r". cloning has arguments of git
// clone.
func newScene(t *testing.T, cloning ...string) *scene {
	t.Helper()
	server := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 4, Changes: 5, Branches: []string{"feature/x"}})
	for key, value := range map[string]string{"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"} {
		if err := server.Configure("r", key, value); err != nil {
			t.Fatal(err)
		}
	}
	return sceneOf(t, server, "r", cloning...)
}

// sceneOf makes a scene of a server's repository.
func sceneOf(t *testing.T, server *gitserver.Server, repo string, cloning ...string) *scene {
	t.Helper()
	dir := testdir.New(t, "quarantine")
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	g, err := git.New(git.Config{Program: program, UID: fetcher, GID: fetcher, Schemes: []string{"http"}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := Open(g, filepath.Join(dir, "quarantine"), 64<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, server: server, q: q, layer: filepath.Join(dir, "layer/.git"), root: filepath.Join(dir, "root")}
	testgit.Git(t, dir, append(append([]string{"clone", "-q", "--no-checkout"}, cloning...), server.URL(repo), "layer")...)
	s.copy(s.layer, filepath.Join(s.root, ".git"))
	s.git("reset", "-q", "--hard")
	s.base = s.git("rev-parse", "HEAD")
	return s
}

// again returns a scene with the same git layer, a copy of the work tree and a quarantine of its
// own.
func (s *scene) again(t *testing.T) *scene {
	t.Helper()
	dir := testdir.New(t, "quarantine")
	q, err := Open(s.q.Git, filepath.Join(dir, "quarantine"), s.q.MaxSize, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := &scene{t: t, server: s.server, q: q, layer: s.layer, root: filepath.Join(dir, "root"), base: s.base}
	other.copy(s.root, other.root)
	return other
}

func (s *scene) copy(from, to string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// git runs git in the work tree, as the container does.
func (s *scene) git(args ...string) string {
	s.t.Helper()
	return testgit.Git(s.t, s.root, args...)
}

// write writes a file of the work tree, or of .git.
func (s *scene) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

// commit commits a new content of a file, and returns the commit.
func (s *scene) commit(name, content string) string {
	s.t.Helper()
	s.write(name, content)
	s.git("add", name)
	s.git("commit", "-q", "-m", "change "+name)
	return s.git("rev-parse", "HEAD")
}

// repo opens the repository.
func (s *scene) repo() (*Repo, error) {
	s.t.Helper()
	root, err := os.Open(s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { root.Close() })
	r, err := OpenRepo(s.t.Context(), root, s.layer)
	if err == nil {
		s.t.Cleanup(func() { r.Close() })
	}
	return r, err
}

func silent(string, int64, int64) {}

// take takes a branch.
func (s *scene) take(branch string) (*Taken, Branch, error) {
	s.t.Helper()
	return s.takeIn(s.t.Context(), branch)
}

func (s *scene) takeIn(ctx context.Context, branch string) (*Taken, Branch, error) {
	s.t.Helper()
	r, err := s.repo()
	if err != nil {
		return nil, Branch{}, err
	}
	b, err := r.Branch(branch)
	if err != nil {
		return nil, b, err
	}
	taken, err := s.q.Take(ctx, r, []Branch{b}, silent)
	if err == nil {
		s.t.Cleanup(func() {
			if err := taken.Close(); err != nil {
				s.t.Error(err)
			}
		})
	}
	return taken, b, err
}

// mustTake is take without an error.
func (s *scene) mustTake(branch string) (*Taken, Branch) {
	s.t.Helper()
	taken, b, err := s.take(branch)
	if err != nil {
		s.t.Fatal(err)
	}
	return taken, b
}

// target returns the target of a push to a branch.
func (s *scene) target(branch, lease string) Target {
	return Target{Remote: git.Remote{URL: s.server.URL("r")}, Branch: branch, Lease: lease}
}

// push takes a branch and pushes it.
func (s *scene) push(branch, to, lease string) error {
	s.t.Helper()
	taken, b, err := s.take(branch)
	if err != nil {
		return err
	}
	return taken.Push(s.t.Context(), s.target(to, lease), b, silent)
}

// at returns the commit of a branch of the remote, empty if there is none.
func (s *scene) at(branch string) string {
	s.t.Helper()
	out, err := testgit.Run(testgit.Command(s.server.Path("r"), "rev-parse", "--verify", "--quiet", "refs/heads/"+branch))
	if err != nil {
		return ""
	}
	return out
}

// wantRefusal checks that an error is a refusal with that reason and text, and that the
// quarantine is empty.
func (s *scene) wantRefusal(err error, why Why, text string) {
	s.t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Why != why || !strings.Contains(r.Text, text) {
		s.t.Errorf("got the error %v, want a refusal of kind %d with %q", err, why, text)
	}
	s.wantEmpty()
}

// wantEmpty checks that the quarantine has no directories.
func (s *scene) wantEmpty() {
	s.t.Helper()
	if left, err := os.ReadDir(s.q.Dir); err != nil || len(left) > 0 {
		s.t.Errorf("left in the quarantine: %v, %v", left, err)
	}
}
