package sshserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	_ "github.com/helmdeck/repos/tests/environ"
)

type user struct {
	t   *testing.T
	dir string
	ssh string
}

// login writes a user's key and known hosts.
func login(t *testing.T, key []byte, knownHosts string) user {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{"key": key, "known_hosts": []byte(knownHosts)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return user{t, dir, "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes" +
		" -i " + dir + "/key -o GlobalKnownHostsFile=/dev/null -o UserKnownHostsFile=" + dir + "/known_hosts"}
}

func (u user) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = u.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + u.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_SSH_COMMAND=" + u.ssh, "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func start(t *testing.T) (*Server, string) {
	t.Helper()
	s, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(s.Log())
		}
	})
	head, err := gitserver.Generate(s.Path("app"), gitserver.Spec{Files: 20, Commits: 2, Changes: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s, head
}

func TestLogin(t *testing.T) {
	s, head := start(t)
	other, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cases := []struct {
		name       string
		key        []byte
		knownHosts string
		url        string
		want       string // in the output
		ok         bool
		stats      Stats
	}{
		{"absolute", s.ClientKey(), s.KnownHosts(), s.URL("app"), head, true, Stats{1, 1}},
		{"home", s.ClientKey(), s.KnownHosts(), s.HomeURL("app"), head, true, Stats{1, 1}},
		{"missing", s.ClientKey(), s.KnownHosts(), s.URL("nothing"), "does not appear to be a git repository", false, Stats{1, 1}},
		{"another key", other.ClientKey(), s.KnownHosts(), s.URL("app"), "Permission denied", false, Stats{1, 0}},
		{"a key with a passphrase", s.LockedKey(), s.KnownHosts(), s.URL("app"), "Permission denied", false, Stats{1, 0}},
		{"unknown host", s.ClientKey(), "", s.URL("app"), "Host key verification failed", false, Stats{1, 0}},
		{"another host's keys", s.ClientKey(), s.ChangedKnownHosts(), s.URL("app"), "REMOTE HOST IDENTIFICATION HAS CHANGED", false, Stats{1, 0}},
	}
	for _, c := range cases {
		before := s.Stats()
		out, err := login(t, c.key, c.knownHosts).git("ls-remote", c.url, "refs/heads/main")
		if (err == nil) != c.ok || !strings.Contains(out, c.want) {
			t.Errorf("%s: got %v %q, want %q", c.name, err, out, c.want)
		}
		after := s.Stats()
		got := Stats{after.Connections - before.Connections, after.Commands - before.Commands}
		if got != c.stats {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.stats)
		}
	}
}

func TestCloneAndPush(t *testing.T) {
	s, _ := start(t)
	u := login(t, s.ClientKey(), s.KnownHosts())
	for _, args := range [][]string{
		{"clone", s.URL("app"), "app"},
		{"-C", "app", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "mine"},
		{"-C", "app", "push", "origin", "HEAD:refs/heads/mine"},
		{"-C", "app", "fetch"},
	} {
		if out, err := u.git(args...); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}

func TestChangeHostKeys(t *testing.T) {
	s, _ := start(t)
	u := login(t, s.ClientKey(), s.KnownHosts())
	if out, err := u.git("ls-remote", s.URL("app")); err != nil {
		t.Fatalf("before: %v\n%s", err, out)
	}
	s.ChangeHostKeys()
	out, err := u.git("ls-remote", s.URL("app"))
	if want := "REMOTE HOST IDENTIFICATION HAS CHANGED"; err == nil || !strings.Contains(out, want) {
		t.Errorf("got %v %q, want %q", err, out, want)
	}
	u = login(t, s.ClientKey(), s.ChangedKnownHosts())
	if out, err := u.git("ls-remote", s.URL("app")); err != nil {
		t.Errorf("with the new keys: %v\n%s", err, out)
	}
}

func TestFingerprints(t *testing.T) {
	s, _ := start(t)
	out, err := exec.Command("sh", "-c", `printf %s "$1" | ssh-keygen -l -f -`, "sh", s.KnownHosts()).Output()
	if err != nil {
		t.Fatal(err)
	}
	prints := s.Fingerprints()
	if len(prints) != 2 {
		t.Fatalf("got %q, want two", prints)
	}
	for _, want := range prints {
		if !strings.HasPrefix(want, "SHA256:") || !strings.Contains(string(out), want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
}

// The server runs git's commands only.
func TestCommands(t *testing.T) {
	s, _ := start(t)
	u := login(t, s.ClientKey(), s.KnownHosts())
	host, port, _ := strings.Cut(s.Address(), ":")
	ask := func(command string) (string, error) {
		out, err := exec.Command("sh", "-c", u.ssh+" -p "+port+" "+User+"@"+host+" "+quote(command)).Output()
		return string(out), err
	}
	for _, command := range []string{"id", "sh -c id", "git-upload-pack; id", "git-lfs-authenticate app download", ""} {
		if out, err := ask(command); err == nil || strings.Contains(out, "uid=") {
			t.Errorf("%q: got %v %q, want a refusal", command, err, out)
		}
	}
	if err := s.LFS("http://127.0.0.1:1/app.git/info/lfs", "Bearer x"); err != nil {
		t.Fatal(err)
	}
	out, err := ask("git-lfs-authenticate app download")
	if want := `{"href":"http://127.0.0.1:1/app.git/info/lfs","header":{"Authorization":"Bearer x"}}`; err != nil || out != want {
		t.Errorf("got %v %q, want %q", err, out, want)
	}
}

// Close ends a client that waits for an answer.
func TestSilence(t *testing.T) {
	s, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Silence(true)
	u := login(t, s.ClientKey(), s.KnownHosts())
	done := make(chan error)
	go func() {
		_, err := u.git("ls-remote", s.URL("app"))
		done <- err
	}()
	for s.Stats().Connections == 0 {
		runtime.Gosched()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("ls-remote of a silent server succeeded")
	}
	if _, err := os.Stat(s.state); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", s.state, err)
	}
}
