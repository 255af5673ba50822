package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// script returns a Git whose program is a shell script, and the directory that
// the script lies in.
func script(t *testing.T, text string) (*Git, string) {
	t.Helper()
	dir := scratch(t)
	path := filepath.Join(dir, "program")
	// No child that is started meanwhile may have it open for writing when it is executed.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Config{Program: path, UID: fetcher, GID: fetcher + 1, Schemes: []string{"https", "http"}})
	if err != nil {
		t.Fatal(err)
	}
	return g, dir
}

// run runs a script as Git would run git.
func runScript(t *testing.T, text string, write ...string) string {
	t.Helper()
	g, dir := script(t, text)
	out, err := g.run(t.Context(), command{
		op: "try", dir: "/", uid: g.uid, gid: g.gid, read: []string{dir, "/proc"}, write: write, env: []string{"EXTRA=1"},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestChildHasNoPrivileges(t *testing.T) {
	t.Parallel()
	status := make(map[string]string)
	for line := range strings.Lines(runScript(t, "cat /proc/self/status")) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	uid, gid, none := strconv.Itoa(fetcher), strconv.Itoa(fetcher+1), "0000000000000000"
	for _, tt := range []struct{ name, want string }{
		{"Uid", strings.Join([]string{uid, uid, uid, uid}, " ")},
		{"Gid", strings.Join([]string{gid, gid, gid, gid}, " ")},
		{"Groups", ""},
		{"CapInh", none}, {"CapPrm", none}, {"CapEff", none}, {"CapBnd", none}, {"CapAmb", none},
		{"NoNewPrivs", "1"},
	} {
		if got, ok := status[tt.name]; !ok || got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestParentKeepsItsPrivileges(t *testing.T) {
	runScript(t, "true")
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	free := 0
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended, as a confined one does
		}
		if strings.Contains(string(data), "NoNewPrivs:\t0") {
			free++
		}
	}
	if free == 0 {
		t.Error("every thread is confined")
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600); err != nil {
		t.Errorf("the test itself is confined: %v", err)
	}
}

func TestChildEnvironmentIsOurs(t *testing.T) {
	t.Parallel()
	t.Logf("the test's own has %d variables", len(os.Environ()))
	got := strings.Split(strings.TrimRight(runScript(t, `tr '\0' '\n' < /proc/$$/environ`), "\n"), "\n")
	want := []string{
		"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false", "GIT_SSH_COMMAND=/bin/false",
		"GIT_ALLOW_PROTOCOL=", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "EXTRA=1",
	}
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("%s is missing", w)
		}
	}
	for _, g := range got {
		// os/exec adds PWD for the directory.
		if g != "PWD=/" && !strings.Contains(strings.Join(want, "\n"), g) {
			t.Errorf("%s is not ours", g)
		}
	}
}

func TestChildLeadsItsProcessGroup(t *testing.T) {
	t.Parallel()
	fields := strings.Fields(runScript(t, "cat /proc/$$/stat"))
	if len(fields) < 5 || fields[0] != fields[4] {
		t.Errorf("process %v, want one that leads its group", fields)
	}
	if own := strconv.Itoa(syscall.Getpgrp()); fields[4] == own {
		t.Errorf("it is in our group %s", own)
	}
}

func TestChildSeesItsGrantsOnly(t *testing.T) {
	t.Parallel()
	abi, err := landlockABI()
	if err != nil {
		t.Fatal(err)
	}
	if abi == 0 {
		t.Fatal("this kernel has no Landlock: the test says nothing")
	}
	other, mine := scratch(t), owned(t, fetcher)
	if err := os.Chmod(other, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Everything here is allowed by its mode: only Landlock refuses.
	for _, tt := range []struct {
		what string
		want bool
	}{
		{"cat /etc/passwd", true},
		{"cat /usr/bin/env", true},
		{"cat /dev/null", true},
		{"echo x > /dev/null", true},
		{"echo x > " + mine + "/file && cat " + mine + "/file && rm " + mine + "/file", true},
		{"cat " + other + "/secret", false},
		{"ls " + other, false},
		{"echo x > " + other + "/new", false},
		{"echo x > " + other + "/secret", false},
		{"echo x > /var/tmp/helmdeck-git-outside", false},
		{"ls /var/tmp", false},
		{"cat /etc/fstab", false},
		{"cat /etc/os-release.d", false},
		{"ln " + mine + "/../owned /var/tmp/x", false},
	} {
		// A redirection that fails ends the shell, so that it needs one of its own.
		out := runScript(t, fmt.Sprintf("if (%s) >&2; then echo yes; else echo no; fi", tt.what), mine)
		if got := strings.TrimSpace(out) == "yes"; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// TestNothingIsLeftOfAStoppedCommand ends commands in every way; the group has
// a pipe open as long as one of it lives.
func TestNothingIsLeftOfAStoppedCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		canceled   bool
	}{
		{"the leader ends at TERM", "sleep 1000", true},
		{"all ignore TERM", "trap '' TERM; sleep 1000 & sleep 1000 & wait; wait", true},
		{"a child ignores TERM", "(trap '' TERM; sleep 1000; sleep 1000) & wait", true},
		{"the leader ends first", "(trap '' TERM HUP; sleep 1000) >/dev/null 2>&1 & true", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := owned(t, fetcher)
			alive, began := filepath.Join(dir, "alive"), filepath.Join(dir, "began")
			for _, fifo := range []string{alive, began} {
				if err := syscall.Mkfifo(fifo, 0o666); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(fifo, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			// Open for both, as a FIFO's open would wait for the other side.
			first, err := os.OpenFile(began, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			group, err := os.OpenFile(alive, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer group.Close()

			g, scriptDir := script(t, fmt.Sprintf("exec 9> %s\necho x > %s\n%s\n", alive, began, tt.text))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := g.run(ctx, command{op: "try", dir: "/", uid: g.uid, gid: g.gid, read: []string{scriptDir}, write: []string{dir}})
				ended <- err
			}()
			if _, err := first.Read(make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			if tt.canceled {
				cancel()
			}
			err = <-ended
			if got := KindOf(err) == KindCanceled; got != tt.canceled || !tt.canceled && err != nil {
				t.Errorf("run: %v", err)
			}
			if _, err := group.Read(make([]byte, 1)); err == nil || err.Error() != "EOF" {
				t.Errorf("wait for the group: %v, want EOF", err)
			}
		})
	}
}
