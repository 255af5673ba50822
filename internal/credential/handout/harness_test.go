package handout

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/meta"
)

const (
	repo   = "https://git.example.com/org/app.git"
	secret = "s3cret-of-app"
)

// world is a Server with a clock and a source of credentials that a test controls.
type world struct {
	*testing.T
	*Server
	dir string // of the workspace "w"

	mu     sync.Mutex
	now    time.Time
	answer Answer
	err    error
	asked  []Question
	events []Event
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Now(), answer: Answer{Name: "app", User: "me", Secret: credential.NewSecret(secret)}}
	log := logrus.New()
	log.SetOutput(io.Discard)
	w.Server = New(Config{
		Log: log,
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
		Credential: func(_ context.Context, q Question) (Answer, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, q)
			return w.answer, w.err
		},
		Observe: func(_ context.Context, e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	})
	t.Cleanup(w.Close)
	w.dir = filepath.Join(t.TempDir(), "helper")
	return w
}

// set changes what the source of credentials answers.
func (w *world) set(a Answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer, w.err = a, err
}

func workspaceOf(id, subject, url string) meta.Workspace {
	return meta.Workspace{ID: id, Volume: "v", Options: map[string]string{"repo": url, "subject": subject, "auth": "container", "credential": "app"}}
}

// serve makes the directory of the workspace "w" and serves it.
func (w *world) serve(url string) {
	w.Helper()
	if err := Make(w.dir); err != nil {
		w.Fatal(err)
	}
	if err := w.Serve(w.dir, workspaceOf("w", "s", url)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) socket() string { return filepath.Join(w.dir, socketName) }

func (w *world) dial() *net.UnixConn {
	w.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: w.socket(), Net: "unix"})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a request as git credential-cache does, and returns the answer.
func (w *world) ask(request string) string {
	w.Helper()
	conn := w.dial()
	io.WriteString(conn, request) // the server may hang up before it has read all
	conn.CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.Logf("read: %v", err)
	}
	return string(answer)
}

// checkout makes a repository at a path with a space, where the workspace's directory is in .git and
// .git/config has the section.
func (w *world) checkout() string {
	w.Helper()
	top := filepath.Join(w.T.TempDir(), "a checkout")
	w.git("", "init", "-q", top)
	w.git(top, "commit", "-q", "--allow-empty", "-m", "first")
	w.git(top, "remote", "add", "origin", repo)
	w.dir = filepath.Join(top, Mount)
	f, err := os.OpenFile(filepath.Join(top, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(Section(repo)); err != nil {
		w.Fatal(err)
	}
	return top
}

func (w *world) git(dir string, args ...string) string {
	w.Helper()
	out, err := w.command(dir, "", nil, args...)
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

// command runs git, and returns its output with what it printed to stderr.
func (w *world) command(dir, stdin string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(w.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
