package handout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/credential"
)

// question is what git asks for origin.
const question = "url=" + repo + "\n\n"

// TestGit: git finds the helper wherever it runs, and asks it for the repository alone.
func TestGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top := w.checkout()
	w.serve(repo)
	if err := os.MkdirAll(filepath.Join(top, "sub/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "another work tree")
	w.git(top, "worktree", "add", "-q", "-b", "other", other)
	inner := filepath.Join(top, "inner")
	w.git("", "init", "-q", inner)
	for _, tt := range []struct {
		name, dir, stdin string
		env              []string
		got              bool
	}{
		{"at the top", top, question, nil, true},
		{"in a subdirectory", filepath.Join(top, "sub/dir"), question, nil, true},
		{"in .git", filepath.Join(top, ".git"), question, nil, true},
		{"in another work tree", other, question, nil, true},
		{"with GIT_DIR", "/", question, []string{"GIT_DIR=" + filepath.Join(top, ".git")}, true},
		{"with a relative GIT_DIR", filepath.Dir(top), question, []string{"GIT_DIR=a checkout/.git"}, true},
		{"with GIT_DIR and GIT_WORK_TREE", "/", question, []string{"GIT_DIR=" + filepath.Join(top, ".git"), "GIT_WORK_TREE=" + top}, true},
		{"another repository of the host", top, "url=https://git.example.com/org/other.git\n\n", nil, false},
		{"another port", top, "url=https://git.example.com:8443/org/app.git\n\n", nil, false},
		{"below the repository", top, "url=" + repo + "/info/lfs\n\n", nil, false},
		{"in the repository of a submodule", inner, question, nil, false},
	} {
		out, err := w.command(tt.dir, tt.stdin, tt.env, "credential", "fill")
		if got := strings.Contains(out, "username=me\npassword="+secret+"\n"); got != tt.got || (err == nil) != tt.got {
			t.Errorf("%s: got the credential: %v, want %v; %v: %s", tt.name, got, tt.got, err, out)
		}
	}
	for _, q := range w.asked {
		if q.Repo.String() != repo || q.Subject != "s" || q.Credential != "app" {
			t.Errorf("asked for %+v", q)
		}
	}
}

// TestGitSaysWhy: without a credential git goes on as without a helper, and stderr has one line with
// the reason.
func TestGitSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top := w.checkout()
	fill := func(want string) {
		t.Helper()
		out, err := w.command(top, question, nil, "credential", "fill")
		first, rest, _ := strings.Cut(out, "\n")
		if err == nil || first != "helmdeck/repos: "+want || strings.Contains(rest, "helmdeck") || !strings.Contains(rest, "terminal prompts disabled") {
			t.Errorf("want %q, got %v: %s", want, err, out)
		}
	}
	fill("no credential, because .git/helmdeck is not mounted here")
	if err := Make(w.dir); err != nil {
		t.Fatal(err)
	}
	fill("no credential, because the plugin does not answer")
	w.serve(repo)
	w.set(Answer{}, ErrNone)
	fill("no credential is stored for " + repo)
	w.set(Answer{}, errors.New("the provider has the secret "+secret))
	fill("the credential can't be used: the plugin's log says why")
	w.set(Answer{User: "me\npassword=other", Secret: credential.NewSecret(secret)}, nil)
	fill("the credential can't be used: the plugin's log says why")
	w.Close()
	fill("no credential, because the plugin does not answer")
	w.serve(repo)
	w.End("w")
	fill("no credential, because the plugin does not answer")
	if out, err := w.command(top, "url="+repo+"\nusername=a\npassword=b\n\n", nil, "credential", "approve"); err != nil || out != "" {
		t.Errorf("approve: %v: %s", err, out)
	}
	w.serve(repo)
	w.set(Answer{Name: "app", User: "me", Secret: credential.NewSecret(secret)}, nil)
	if out, err := w.command(top, question, nil, "credential", "fill"); err != nil || !strings.Contains(out, secret) {
		t.Errorf("served again: %v: %s", err, out)
	}
}

// TestGitRefused: when a server refuses a secret that was handed out, git's next question says so.
func TestGitRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top := w.checkout()
	w.serve(repo)
	reject := func(password string) {
		t.Helper()
		if out, err := w.command(top, "url="+repo+"\nusername=me\npassword="+password+"\n\n", nil, "credential", "reject"); err != nil || out != "" {
			t.Errorf("reject: %v: %s", err, out)
		}
	}
	fill := func(refused string) {
		t.Helper()
		w.gitWith(top, question, "credential", "fill")
		if got := w.asked[len(w.asked)-1].Refused.Reveal(); got != refused {
			t.Errorf("asked for another one than %q, want %q", got, refused)
		}
	}
	reject(secret) // nothing was handed out yet
	fill("")
	reject("something else")
	fill("")
	reject(secret)
	fill(secret)
}

func (w *world) gitWith(dir, stdin string, args ...string) {
	w.Helper()
	if out, err := w.command(dir, stdin, nil, args...); err != nil {
		w.Fatalf("git %q: %v: %s", args, err, out)
	}
}

// TestBearer: a git that takes bearer tokens says so, and any other gets none.
func TestBearer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(repo)
	end := time.Unix(2_000_000_000, 0)
	w.set(Answer{Name: "app", Bearer: true, Secret: credential.NewSecret(secret), Expires: end}, nil)
	const ask = "action=get\ntimeout=900\nprotocol=https\nhost=git.example.com\npath=org/app.git\n"
	want := "capability[]=authtype\nauthtype=Bearer\ncredential=" + secret + "\nephemeral=1\npassword_expiry_utc=2000000000\n"
	if got := w.ask("action=get\ncapability[]=authtype\ncapability[]=state\n" + strings.TrimPrefix(ask, "action=get\n")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := w.ask(ask), "problem=the credential is a bearer token, which needs git 2.46 in the container\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
