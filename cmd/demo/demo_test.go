package main

import (
	"bufio"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/helmdeck/repos/tests/environ"
)

// TestSample checks that the sample is the same each time, even if another program uses its address, that it counts,
// and that it leaves nothing behind.
func TestSample(t *testing.T) {
	tips := map[string]bool{}
	address := "127.0.0.1:0"
	for range 2 {
		dir := filepath.Join(t.TempDir(), "demo")
		in, stop := io.Pipe()
		read, out := io.Pipe()
		ended := make(chan error, 1)
		go func(address string) { ended <- serve(dir, address, in, out) }(address)
		lines := bufio.NewReader(read)
		repo, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(strings.TrimSpace(repo))
		if err != nil || u.Host == address {
			t.Fatalf("got %q, %v; want another address than %s", repo, err, address)
		}
		address = u.Host
		tip, err := exec.Command("git", "ls-remote", u.String(), "refs/heads/main").Output()
		if err != nil || len(tip) == 0 {
			t.Fatalf("%s: %v", tip, err)
		}
		tips[string(tip)] = true
		go stop.Write([]byte("\n"))
		if counts, err := lines.ReadString('\n'); counts != "0 1\n" || err != nil {
			t.Errorf("got %q, %v; want no clone and one request for refs", counts, err)
		}
		defer func() {
			stop.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s still exists: %v", dir, err)
			}
		}()
	}
	if len(tips) != 1 {
		t.Errorf("the commits differ: %v", tips)
	}
}

// call calls a function of the script.
func call(t *testing.T, function string, args ...string) string {
	t.Helper()
	load := `source <(sed -n "/^$0() *{/,/^}/p" demo); "$0" "$@"`
	out, err := exec.Command("bash", append([]string{"-euc", load, function}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// TestQuoted checks that a printed command can be pasted into a shell.
func TestQuoted(t *testing.T) {
	for _, want := range []string{"run", "", "a b", "it's", "$HOME", "{{json .Status}}", "one\ntwo", `"q",x`, "~", "*", "repo=https://h/p?q"} {
		out, err := exec.Command("sh", "-c", "printf %s"+call(t, "quoted", want)).Output()
		if got := string(out); err != nil || got != want {
			t.Errorf("a shell reads %q as %q, %v", want, got, err)
		}
	}
	if got, want := call(t, "quoted", "volume-opt=ref=main"), " volume-opt=ref=main"; got != want {
		t.Errorf("got %s, want no quotes: %s", got, want)
	}
}

func TestNameless(t *testing.T) {
	for want, options := range map[string][]string{
		"type=volume,volume-driver=helmdeck/repos,volume-opt=repo=https://h/p,dst=/w":                   {"repo=https://h/p"},
		"type=volume,volume-driver=helmdeck/repos,volume-opt=repo=https://h/p,volume-opt=ref=v1,dst=/w": {"repo=https://h/p", "ref=v1"},
		`type=volume,volume-driver=helmdeck/repos,"volume-opt=repo=https://h/a,b",dst=/w`:               {"repo=https://h/a,b"},
	} {
		if got := call(t, "nameless", options...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestPasswordIsNotShown checks that a URL with a password is refused before a command prints it.
func TestPasswordIsNotShown(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("./demo")
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REPO=https://user:secret@h/p")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "demo: REPO") || strings.Contains(string(out), "secret") {
		t.Errorf("%v\n%s", err, out)
	}
}
