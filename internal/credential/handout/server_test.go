package handout

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/tests/wait"
)

const asked = "action=get\ntimeout=900\nprotocol=https\nhost=git.example.com\npath=org/app.git\n"

// TestOneRepository: nothing but the volume's repository, in any spelling of it, gets a secret.
func TestOneRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(repo)
	ask := func(protocol, host, path string) string {
		return "action=get\nprotocol=" + protocol + "\nhost=" + host + "\npath=" + path + "\n"
	}
	for _, tt := range []struct {
		name, request string
		got           bool
	}{
		{"as git asks", asked, true},
		{"with an empty line at the end", asked + "\n", true},
		{"without .git", ask("https", "git.example.com", "org/app"), true},
		{"a slash at the end", ask("https", "git.example.com", "org/app.git/"), true},
		{"the default port", ask("https", "git.example.com:443", "org/app.git"), true},
		{"capitals in the host", ask("https", "Git.Example.COM", "org/app.git"), true},
		{"the user", asked + "username=me\n", true},
		{"unknown attributes", asked + "wwwauth[]=Basic realm=\"a\"\nwwwauth[]=Bearer\nstate[]=x\n", true},

		{"another user", asked + "username=you\n", false},
		{"http", ask("http", "git.example.com", "org/app.git"), false},
		{"ssh", ask("ssh", "git.example.com", "org/app.git"), false},
		{"another host", ask("https", "evil.example.com", "org/app.git"), false},
		{"a host below it", ask("https", "git.example.com.evil.com", "org/app.git"), false},
		{"another port", ask("https", "git.example.com:8443", "org/app.git"), false},
		{"the port of http", ask("https", "git.example.com:80", "org/app.git"), false},
		{"a user in the host", ask("https", "evil@git.example.com", "org/app.git"), false},
		{"the host as a user", ask("https", "git.example.com@evil.com", "org/app.git"), false},
		{"a path in the host", ask("https", "git.example.com/org", "app.git"), false},
		{"a query in the host", ask("https", "git.example.com?", "org/app.git"), false},
		{"an encoded host", ask("https", "git%2eexample.com", "org/app.git"), false},
		{"a scheme in the protocol", ask("https://git.example.com/x?y=https", "git.example.com", "org/app.git"), false},
		{"another repository", ask("https", "git.example.com", "org/other.git"), false},
		{"one above", ask("https", "git.example.com", "org"), false},
		{"one below", ask("https", "git.example.com", "org/app.git/x"), false},
		{"one with that beginning", ask("https", "git.example.com", "org/app.github"), false},
		{"capitals in the path", ask("https", "git.example.com", "org/APP.git"), false},
		{"dots", ask("https", "git.example.com", "org/x/../app.git"), false},
		{"two slashes", ask("https", "git.example.com", "org//app.git"), false},
		{"a query", ask("https", "git.example.com", "org/app.git?x"), false},
		{"an encoded path", ask("https", "git.example.com", "org%2fapp.git"), false},
		{"no path", "action=get\nprotocol=https\nhost=git.example.com\n", false},
		{"an empty path", ask("https", "git.example.com", ""), false},
		{"no host", "action=get\nprotocol=https\npath=org/app.git\n", false},
		{"only a URL", "action=get\nurl=" + repo + "\n", false},
		{"nothing", "", false},
		{"no action", strings.TrimPrefix(asked, "action=get\n"), false},
		{"an unknown action", strings.Replace(asked, "get", "exit", 1), false},
		{"store", strings.Replace(asked, "get", "store", 1), false},
		{"erase", strings.Replace(asked, "get", "erase", 1), false},
		{"a second host", asked + "host=evil.example.com\n", false},
		{"a second action", asked + "action=get\n", false},
		{"carriage returns", strings.ReplaceAll(asked, "\n", "\r\n"), false},
		{"a carriage return in the path", ask("https", "git.example.com", "org/app.git\r"), false},
		{"a NUL", ask("https", "git.example.com\x00", "org/app.git"), false},
		{"a line without a value", asked + "x\n", false},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", false},
		{"too long", asked + "x=" + strings.Repeat("x", maxRequest) + "\n", false},
	} {
		answer := w.ask(tt.request)
		if got := strings.Contains(answer, secret); got != tt.got {
			t.Errorf("%s: got the secret: %v, want %v: %q", tt.name, got, tt.got, answer)
		}
		if !tt.got && answer != "" && !strings.HasPrefix(answer, "problem=") {
			t.Errorf("%s: got %q", tt.name, answer)
		}
	}
}

// TestPathIsDecoded: git decodes the path before it asks.
func TestPathIsDecoded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve("http://127.0.0.1:3000/a%20b/%c3%a4")
	for path, want := range map[string]bool{"a b/ä": true, "a%20b/%c3%a4": false, "a b/ä.git": true} {
		if got := strings.Contains(w.ask("action=get\nprotocol=http\nhost=127.0.0.1:3000\npath="+path+"\n"), secret); got != want {
			t.Errorf("%s: got the secret: %v, want %v", path, got, want)
		}
	}
}

// TestEnd: when End returns, neither the socket nor a connection made before answers.
func TestEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(repo)
	waiting := w.dial()
	io.WriteString(waiting, asked) // and does not say that this is all
	var idle []io.Reader
	for range 3 * perWorkspace {
		idle = append(idle, w.dial())
	}
	w.End("w")
	w.End("w")
	if _, err := os.Lstat(w.socket()); !os.IsNotExist(err) {
		t.Errorf("the socket is there: %v", err)
	}
	io.WriteString(waiting, "\n")
	waiting.CloseWrite()
	for _, conn := range append(idle, waiting) {
		if answer, _ := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("a connection of before got %q", answer)
		}
	}
	if len(w.served)+len(w.subjects) > 0 {
		t.Errorf("%d services and %d subjects are left", len(w.served), len(w.subjects))
	}
}

// TestEndWhileAsking: an answer that comes after End reaches nobody.
func TestEndWhileAsking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, ended := make(chan struct{}), make(chan struct{})
	w.config.Credential = func(ctx context.Context, _ Question) (Answer, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return w.answer, nil
	}
	w.serve(repo)
	conn := w.dial()
	io.WriteString(conn, asked+"\n")
	<-began
	w.End("w")
	<-ended
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("got %q", answer)
	}
}

// TestBounds: a workspace that opens thousands of connections delays itself alone, and gets an
// answer when it lets go of them. Slow ones are closed.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(repo)
	other := filepath.Join(t.TempDir(), "other")
	if err := Make(other); err != nil {
		t.Fatal(err)
	}
	if err := w.Serve(other, workspaceOf("other", "other", repo)); err != nil {
		t.Fatal(err)
	}
	var open []io.Closer
	for range 1000 {
		open = append(open, w.dial())
	}
	mine := w.dir
	w.dir = other
	if got := w.ask(asked); !strings.Contains(got, secret) {
		t.Errorf("another subject got %q", got)
	}
	w.dir = mine
	w.mu.Lock()
	w.asked = nil
	w.mu.Unlock()
	v := w.get("w")
	v.mu.Lock()
	if n := len(v.conns); n > perWorkspace {
		t.Errorf("%d connections are served", n)
	}
	v.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
	if got := w.ask(asked); !strings.Contains(got, secret) {
		t.Errorf("afterwards: %q", got)
	}
	slow := w.dial() // its request never ends
	io.WriteString(slow, "action=get\n")
	slow.SetReadDeadline(time.Now().Add(wait.Most(t)))
	if answer, err := io.ReadAll(slow); err != nil || len(answer) > 0 {
		t.Errorf("a slow client: %q, %v", answer, err)
	}
}

// TestSubjectBound: the connections of all workspaces of a subject share its places.
func TestSubjectBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	w.config.Credential = func(context.Context, Question) (Answer, error) {
		arrived <- struct{}{}
		<-release
		return w.answer, nil
	}
	answers := make(chan string)
	const workspaces = perSubject/perWorkspace + 2
	for i := range workspaces {
		w.dir = filepath.Join(t.TempDir(), "helper")
		if err := Make(w.dir); err != nil {
			t.Fatal(err)
		}
		if err := w.Serve(w.dir, workspaceOf(fmt.Sprint(i), "s", repo)); err != nil {
			t.Fatal(err)
		}
		for range perWorkspace {
			conn := w.dial()
			io.WriteString(conn, asked+"\n")
			go func() {
				answer, _ := io.ReadAll(conn)
				answers <- string(answer)
			}()
		}
	}
	for range perSubject {
		<-arrived
	}
	if n := len(w.subjects["s"].free); n != perSubject || len(arrived) > 0 {
		t.Errorf("%d connections are served and %d more arrived, want %d", n, len(arrived), perSubject)
	}
	close(release)
	for range workspaces * perWorkspace {
		if answer := <-answers; !strings.Contains(answer, secret) {
			t.Errorf("got %q", answer)
		}
	}
}

// TestServeAgain: what a process that died has left is no obstacle, nor what a container with
// CAP_SYS_ADMIN put in its place, and the script is that of this version.
func TestServeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func() error{
		"nothing": func() error { return nil },
		"a socket and an old script": func() error {
			return os.WriteFile(filepath.Join(w.dir, scriptName), []byte("old"), 0o644)
		},
		"a link in place of the socket": func() error {
			os.Remove(w.socket())
			return os.Symlink(outside, w.socket())
		},
		"a link in place of the script": func() error {
			os.Remove(filepath.Join(w.dir, scriptName))
			return os.Symlink(outside, filepath.Join(w.dir, scriptName))
		},
		"directories": func() error {
			os.Remove(filepath.Join(w.dir, scriptName))
			os.Remove(w.socket())
			os.MkdirAll(filepath.Join(w.socket(), "full"), 0o755)
			return os.Mkdir(filepath.Join(w.dir, scriptName), 0o755)
		},
	} {
		w.serve(repo)
		w.Server.Close()
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		w.serve(repo)
		w.serve(repo) // it is served already
		if got := w.ask(asked); !strings.Contains(got, secret) {
			t.Errorf("%s: got %q", name, got)
		}
		info, err := os.Lstat(w.socket())
		if err != nil || info.Mode() != os.ModeSocket|0o666 {
			t.Errorf("%s: the socket is %v, %v", name, info.Mode(), err)
		}
		text, err := os.ReadFile(filepath.Join(w.dir, scriptName))
		if err != nil || string(text) != string(script) {
			t.Errorf("%s: the script is %q, %v", name, text, err)
		}
		info, err = os.Lstat(outside)
		if text, _ := os.ReadFile(outside); err != nil || string(text) != "outside" || info.Mode() != 0o600 {
			t.Errorf("%s: outside is %q, %v, %v", name, text, info.Mode(), err)
		}
		w.End("w")
	}
}

// TestEvents: each question is reported without the secret, and one in a minute is to be recorded.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(repo)
	w.ask(asked)
	w.ask(asked)
	w.ask("nonsense")
	w.set(Answer{}, ErrNone)
	w.ask(asked)
	w.mu.Lock()
	w.now = w.now.Add(noticePause)
	w.mu.Unlock()
	w.set(Answer{Name: "app"}, fmt.Errorf("the provider does not answer"))
	w.ask(asked)
	w.set(Answer{Name: "app", User: "me", Secret: credential.NewSecret(secret)}, nil)
	w.ask(asked)
	want := "[{answered app true} {answered app false} {refused  false} {none  false} {failed app true} {answered app false}]"
	type short struct {
		Result Result
		Name   string
		Notice bool
	}
	var got []short
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		got = append(got, short{e.Result, e.Name, e.Notice})
	}
	if fmt.Sprint(got) != want || strings.Contains(fmt.Sprintf("%+v", w.events), secret) {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestNotWanted: without the option there is nothing, and a nil Server serves nobody.
func TestNotWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := workspaceOf("w", "s", repo)
	if err := (*Server)(nil).Serve(w.dir, rec); err != nil {
		t.Error(err)
	}
	(*Server)(nil).End("w")
	delete(rec.Options, "auth")
	if err := Make(w.dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Serve(w.dir, rec); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(w.socket()); !os.IsNotExist(err) {
		t.Errorf("there is a socket: %v", err)
	}
}
