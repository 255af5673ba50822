package gitserver

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/helmdeck/repos/tests/environ"
)

// sample starts a server with one small repository, `app`, and returns main's commit id.
func sample(t *testing.T) (*Server, string) {
	t.Helper()
	s, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	head, err := Generate(s.Path("app"), Spec{Seed: 1, Files: 60, Commits: 3, Changes: 5, Branches: []string{"feature/x"}})
	if err != nil {
		t.Fatal(err)
	}
	return s, head
}

// client runs the machine's git as a user would.
func client(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(environment(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := client(t, dir, args...)
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

// counts leaves out the bytes, which differ between versions of git.
func counts(s Stats) Stats {
	s.BytesOut = 0
	return s
}

func TestCounts(t *testing.T) {
	s, head := sample(t)
	dir := t.TempDir()
	checkout := filepath.Join(dir, "app")

	steps := []struct {
		name string
		do   func() string
		want Stats
	}{
		{"ls-remote", func() string { return must(t, dir, "ls-remote", s.URL("app"), "refs/heads/main") }, Stats{Infos: 1, LsRefs: 1}},
		{"clone", func() string { return must(t, dir, "clone", s.URL("app")) }, Stats{Infos: 1, LsRefs: 1, Fetches: 1, Clones: 1}},
		{"clone with the suffix", func() string { return must(t, dir, "clone", s.URL("app.git"), "suffix") }, Stats{Infos: 1, LsRefs: 1, Fetches: 1, Clones: 1}},
		{"clone over protocol 0", func() string { return must(t, dir, "-c", "protocol.version=0", "clone", s.URL("app"), "old") }, Stats{Infos: 1, Fetches: 1, Clones: 1}},
		{"fetch of nothing", func() string { return must(t, checkout, "fetch") }, Stats{Infos: 1, LsRefs: 1}},
		{"push", func() string {
			must(t, checkout, "commit", "--allow-empty", "-m", "mine")
			return must(t, checkout, "push", "origin", "main")
		}, Stats{Pushes: 1}},
		{"fetch of something", func() string {
			if _, err := Commit(s.Path("app"), "main", Change{Path: "new", Content: "new\n"}); err != nil {
				t.Fatal(err)
			}
			return must(t, checkout, "fetch")
		}, Stats{Infos: 1, LsRefs: 1, Fetches: 1}},
	}
	for _, step := range steps {
		s.Reset()
		out := step.do()
		if got := counts(s.Stats("app")); got != step.want {
			t.Errorf("%s: got %+v, want %+v\n%s", step.name, got, step.want, out)
		}
	}
	if got := s.Stats("app").BytesOut; got == 0 {
		t.Error("no bytes were counted")
	}
	if got := s.Stats("other"); got != (Stats{}) {
		t.Errorf("a repository without requests has %+v", got)
	}
	if got := must(t, filepath.Join(dir, "suffix"), "rev-parse", "HEAD"); got != head {
		t.Errorf("clone is at %s, want %s", got, head)
	}
}

// git sends a push above a megabyte in chunks, which CGI does not support.
func TestLargePush(t *testing.T) {
	s, _ := sample(t)
	dir := t.TempDir()
	must(t, dir, "clone", s.URL("app"), ".")
	noise := make([]byte, 3<<20)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "add", "noise")
	must(t, dir, "commit", "-m", "noise")
	must(t, dir, "push", "origin", "main")
	if got := s.Stats("app").Pushes; got != 1 {
		t.Errorf("got %d pushes, want 1", got)
	}
	if got, want := must(t, s.Path("app"), "rev-parse", "main"), must(t, dir, "rev-parse", "HEAD"); got != want {
		t.Errorf("the server has %s, want %s", got, want)
	}
}

func TestConfigure(t *testing.T) {
	s, _ := sample(t)
	count := func(checkout string) string {
		t.Helper()
		dir := t.TempDir()
		must(t, dir, "clone", "--no-checkout", "--filter=blob:none", s.URL("app"), checkout)
		return must(t, filepath.Join(dir, checkout), "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
	}
	if got := count("whole"); !strings.Contains(got, "blob") {
		t.Error("the server filtered without being told to allow it")
	}
	if err := s.Configure("app", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	if got := count("filtered"); strings.Contains(got, "blob") {
		t.Error("the server did not filter")
	}
}

func TestFaults(t *testing.T) {
	s, _ := sample(t)
	dir := t.TempDir()
	cases := []struct {
		name  string
		wrap  func(http.Handler) http.Handler
		want  string
		stats Stats
	}{
		{"fail", Fail(http.StatusBadGateway), "502", Stats{Infos: 1}},
		{"missing", Fail(http.StatusNotFound), "not found", Stats{Infos: 1}},
		{"cut", Cut(1000), "early EOF", Stats{Infos: 1, LsRefs: 1, Fetches: 1, Clones: 1}},
	}
	for _, c := range cases {
		s.Wrap(c.wrap)
		s.Reset()
		out, err := client(t, dir, "clone", s.URL("app"), c.name)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: got %v %q, want an error with %q", c.name, err, out, c.want)
		}
		if got := counts(s.Stats("app")); got != c.stats {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.stats)
		}
	}
	s.Wrap(nil)
	must(t, dir, "clone", s.URL("app"), "fine")
}

func TestStall(t *testing.T) {
	s, _ := sample(t)
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	s.Wrap(func(next http.Handler) http.Handler {
		stalled := Stall(release)(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case arrived <- struct{}{}:
			default:
			}
			stalled.ServeHTTP(w, r)
		})
	})

	done := make(chan error)
	go func() {
		_, err := client(t, t.TempDir(), "ls-remote", s.URL("app"))
		done <- err
	}()
	<-arrived
	if got, want := counts(s.Stats("app")), (Stats{Infos: 1}); got != want {
		t.Errorf("while it stalls: got %+v, want %+v", got, want)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// Close ends the requests that a fault stalls.
func TestCloseWhileStalled(t *testing.T) {
	s, _ := sample(t)
	arrived := make(chan struct{})
	s.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			Stall(nil)(next).ServeHTTP(w, r)
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		done <- exec.CommandContext(ctx, "git", "ls-remote", s.URL("app")).Run()
	}()
	<-arrived
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-done; err == nil {
		t.Error("ls-remote of a closed server succeeded")
	}
}
