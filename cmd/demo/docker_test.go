package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A printed command can be pasted into a shell.
func TestQuote(t *testing.T) {
	for _, want := range []string{"run", "", "a b", "it's", "$HOME", "{{json .Status}}", "one\ntwo", `"q",x`, "~", "*", "repo=https://h/p?q"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(want)).Output()
		if got := string(out); err != nil || got != want {
			t.Errorf("%q: a shell reads %s as %q, %v", want, quote(want), got, err)
		}
	}
	if got, want := quote("volume-opt=ref=main"), "volume-opt=ref=main"; got != want {
		t.Errorf("got %s, want no quotes: %s", got, want)
	}
}

// docker is a script in this test. show prints exactly the command that runs, and an error includes
// the command's stderr.
func TestShow(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nfor arg; do echo \"<$arg>\"; done\n[ \"$1\" != fail ] || { echo no such thing >&2; exit 3; }\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var shown bytes.Buffer
	d := docker{out: &shown}

	out, err := d.show(t.Context(), "run", "a b")
	if want := "<run>\n<a b>"; err != nil || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	if got, want := shown.String(), "$ docker run 'a b'\n    <run>\n    <a b>\n"; got != want {
		t.Errorf("shown: got %q, want %q", got, want)
	}
	_, err = d.quiet(t.Context(), "fail", "now", "secret")
	if want := "docker fail now: exit status 3: no such thing"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if strings.Contains(shown.String(), "fail") {
		t.Error("a quiet command was shown")
	}
}

// showUntilCloned repeats a command as long as the clone continues in the background. It returns
// any other error.
func TestShowUntilCloned(t *testing.T) {
	cases := []struct {
		name, stderr string
		want         string // error; empty for none
	}{
		{"clone at work", "cloning https://h/p 43%, continues in the background: run it again", ""},
		{"other error", "no such repository", "docker run: exit status 1: no such repository"},
	}
	for _, c := range cases {
		dir := t.TempDir()
		script := "#!/bin/sh\n[ ! -e \"$0.again\" ] || exit 0\ntouch \"$0.again\"\necho '" + c.stderr + "' >&2\nexit 1\n"
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		d := demo{docker: docker{out: io.Discard}}
		_, err := d.showUntilCloned(t.Context(), "run")
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
