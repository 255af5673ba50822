package lfsserver

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

const content = "a large file\n"

// sample is a server whose repository `app` has one large file, model.bin.
func sample(t *testing.T) (*gitserver.Server, *Server, Pointer) {
	t.Helper()
	git := testgit.Remote(t, "app", gitserver.Spec{Files: 5})
	lfs := &Server{}
	_, pointers, err := lfs.Commit(git.Path("app"), "main", map[string]string{"model.bin": content})
	if err != nil {
		t.Fatal(err)
	}
	git.Route("app", lfs.Serve)
	return git, lfs, pointers["model.bin"]
}

// client runs git with git-lfs's filters and without retries.
func client(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	config := []string{
		"-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.clean=git-lfs clean -- %f",
		"-c", "filter.lfs.smudge=git-lfs smudge -- %f", "-c", "filter.lfs.required=true",
		"-c", "lfs.transfer.maxretries=1", "-c", "user.name=a", "-c", "user.email=a@b",
	}
	cmd := exec.Command("git", append(config, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestClone(t *testing.T) {
	cases := []struct {
		name  string
		setup func(t *testing.T, git *gitserver.Server, lfs *Server, oid string)
		args  []string
		want  string // in the error; empty is success
		stats Stats
	}{
		{"plain", nil, nil, "", Stats{Asked: 1, Downloads: 1}},
		{"with a token for the transfer", func(_ *testing.T, _ *gitserver.Server, lfs *Server, _ string) { lfs.Token("t0ken") }, nil,
			"", Stats{Asked: 1, Downloads: 1}},
		{"with a login", func(_ *testing.T, git *gitserver.Server, _ *Server, _ string) {
			git.Protect("app", gitserver.Login{User: "ada", Password: "pw"})
		}, []string{"-c", "credential.helper=!f() { echo username=ada; echo password=pw; }; f"}, "", Stats{Asked: 1, Downloads: 1}},
		{"denied", func(_ *testing.T, _ *gitserver.Server, lfs *Server, oid string) { lfs.Deny(oid, http.StatusNotFound) }, nil,
			"smudge", Stats{Asked: 1}},
		{"failing", func(_ *testing.T, _ *gitserver.Server, lfs *Server, oid string) {
			lfs.Fail(oid, http.StatusForbidden)
		}, nil, "smudge", Stats{Asked: 1, Downloads: 1}},
		{"spoiled", func(_ *testing.T, _ *gitserver.Server, lfs *Server, oid string) { lfs.Spoil(oid, "A large file\n") }, nil,
			"smudge", Stats{Asked: 1, Downloads: 1}},
	}
	for _, c := range cases {
		git, lfs, pointer := sample(t)
		if c.setup != nil {
			c.setup(t, git, lfs, pointer.OID)
		}
		dir := t.TempDir()
		out, err := client(t, dir, append(c.args, "clone", git.URL("app"), ".")...)
		if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: got %v %q, want %q", c.name, err, out, c.want)
		}
		got, _ := os.ReadFile(filepath.Join(dir, "model.bin"))
		if (string(got) == content) != (c.want == "") {
			t.Errorf("%s: the file is %q", c.name, got)
		}
		stats := lfs.Stats(pointer.OID)
		// The number of git-lfs's retries does not matter.
		if c.want != "" {
			stats.Asked, stats.Downloads = min(stats.Asked, 1), min(stats.Downloads, 1)
		}
		if stats != c.stats {
			t.Errorf("%s: got %+v, want %+v", c.name, stats, c.stats)
		}
	}
}

// The objects of a host can be on another host, which does not get the first one's login.
func TestHref(t *testing.T) {
	git, lfs, pointer := sample(t)
	other := testgit.Serve(t)
	other.Route("objects", lfs.Serve)
	lfs.Href(other.URL("objects") + "/info/lfs/objects")
	git.Protect("app", gitserver.Login{User: "ada", Password: "pw"})
	helper := "credential." + git.URL("") + ".helper=!f() { echo username=ada; echo password=pw; }; f"
	if out, err := client(t, t.TempDir(), "-c", helper, "clone", git.URL("app"), "."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	requests := other.Requests()
	if len(requests) != 1 || !strings.HasSuffix(requests[0].URI, pointer.OID) {
		t.Errorf("the other host got %+v, want one download", requests)
	}
	if got := other.Logins("objects")[gitserver.Login{}]; got != 1 {
		t.Errorf("the other host got the logins %v, want one request without", other.Logins("objects"))
	}
}

func TestPush(t *testing.T) {
	git, lfs, _ := sample(t)
	lfs.Token("t0ken")
	dir := t.TempDir()
	steps := [][]string{
		{"clone", git.URL("app"), "."},
		{"add", "new.bin"},
		{"commit", "-m", "new"},
		{"lfs", "push", "origin", "main"},
		{"push", "origin", "main"},
	}
	for i, args := range steps {
		if out, err := client(t, dir, args...); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		if i == 0 {
			if err := os.WriteFile(filepath.Join(dir, "new.bin"), []byte("new\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := lfs.Stats(PointerTo("new\n").OID); got.Uploads != 1 {
		t.Errorf("got %+v, want one upload", got)
	}
	fresh := t.TempDir()
	if out, err := client(t, fresh, "clone", git.URL("app"), "."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(fresh, "new.bin")); err != nil || string(got) != "new\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	git, lfs, pointer := sample(t)
	base := git.URL("app") + ".git/info/lfs/"
	cases := []struct {
		name, method, path, body string
		token                    string
		want                     int
	}{
		{"no batch", "POST", "objects/batch", "{", "", 422},
		{"locks", "POST", "locks/verify", "{}", "", 404},
		{"unknown object", "GET", "objects/00", "", "", 404},
		{"no token", "GET", "objects/" + pointer.OID, "", "t", 403},
		{"upload without a token", "PUT", "objects/" + pointer.OID, content, "t", 403},
		{"upload of another object", "PUT", "objects/" + pointer.OID, "x", "", 422},
	}
	for _, c := range cases {
		lfs.Token(c.token)
		r, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d", c.name, answer.StatusCode, c.want)
		}
	}
}
