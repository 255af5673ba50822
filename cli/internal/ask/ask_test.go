package ask

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/creack/pty"
	"github.com/docker/cli/cli/streams"
	"github.com/moby/term"
)

func TestConfirm(t *testing.T) {
	for input, want := range map[string]string{
		"y\n": "", "Y": "", " y \n": "",
		"n\n": "declined", "yes please\n": "declined", "\n": "declined", "": "nobody answered: --force goes on",
	} {
		err := Confirm(t.Context(), streams.NewIn(io.NopCloser(strings.NewReader(input))), io.Discard, "WARNING!", "--force")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", input, err, want)
		}
		if declined := want == "declined"; errdefs.IsCanceled(err) != declined {
			t.Errorf("%q: IsCanceled is %t", input, !declined)
		}
	}
}

// typist is a terminal, and its user.
type typist struct {
	keyboard *os.File
	in       *streams.In
	tty      *os.File
}

func newTypist(t *testing.T) typist {
	t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close(); tty.Close() })
	return typist{keyboard, streams.NewIn(tty), tty}
}

// TestSecretOnTerminal checks that a terminal shows the prompt and not what is typed after it, and that it
// shows what is typed again afterwards.
func TestSecretOnTerminal(t *testing.T) {
	for _, c := range []struct {
		typed   string
		several bool
		want    string
	}{
		{"hunter2\n", false, "hunter2"},
		{"line 1\nline 2\n\x04", true, "line 1\nline 2\n"},
	} {
		u := newTypist(t)
		before, err := term.SaveState(u.in.FD())
		if err != nil {
			t.Fatal(err)
		}
		shown := make(chan string, 1)
		go func() {
			screen := bufio.NewReader(u.keyboard)
			prompt, _ := screen.ReadString(':')
			u.keyboard.WriteString(c.typed)
			rest, _ := screen.ReadString('#')
			shown <- prompt + rest
		}()
		got, err := Secret(t.Context(), u.in, u.tty, c.several)
		if err != nil || got != c.want {
			t.Errorf("got %q and %v, want %q", got, err, c.want)
		}
		u.tty.WriteString("#")
		if screen := <-shown; strings.Contains(screen, "hunter2") || strings.Contains(screen, "line 1") {
			t.Errorf("the terminal shows %q", screen)
		}
		after, err := term.SaveState(u.in.FD())
		if err != nil || *after != *before {
			t.Errorf("the terminal has changed: %v", err)
		}
	}
}

// TestSecretInterrupted checks that an interrupt gives the terminal back.
func TestSecretInterrupted(t *testing.T) {
	u := newTypist(t)
	before, err := term.SaveState(u.in.FD())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Secret(ctx, u.in, io.Discard, false); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	after, err := term.SaveState(u.in.FD())
	if err != nil || *after != *before {
		t.Errorf("the terminal has changed: %v", err)
	}
	u.keyboard.WriteString("\n") // ends the read
}

func TestSecretFromPipe(t *testing.T) {
	long := strings.Repeat("x", maxSecret)
	for _, c := range []struct {
		input   string
		several bool
		want    string
		err     string
	}{
		{"token", false, "token", ""},
		{"token\r\n", false, "token", ""},
		{" token \n", false, " token ", ""},
		{"token\n\n", false, "", "line break"},
		{"a\rb", false, "", "line break"},
		{"a\nb\n", true, "a\nb\n", ""},
		{"", true, "", "empty"},
		{long, false, long, ""},
		{long + "x", false, "", "longer"},
	} {
		var prompt bytes.Buffer
		got, err := Secret(t.Context(), streams.NewIn(io.NopCloser(strings.NewReader(c.input))), &prompt, c.several)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || prompt.Len() > 0 {
			t.Errorf("%.20q: got %.20q, %v and %q, want %.20q and %q", c.input, got, err, prompt.String(), c.want, c.err)
		}
	}
}

// TestConfirmNamesTheFlag: only commands that delete have --force.
func TestConfirmNamesTheFlag(t *testing.T) {
	err := Confirm(t.Context(), streams.NewIn(io.NopCloser(strings.NewReader(""))), io.Discard, "It will be pushed.", "--current")
	if err == nil || err.Error() != "nobody answered: --current goes on without a question" {
		t.Error(err)
	}
}
