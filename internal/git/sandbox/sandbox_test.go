package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testgit"
)

// fetcher is the uid of the children in these tests. No other process runs as it.
const fetcher = 64126

// runScript runs a script, which may write to the paths in write, and returns its output.
func runScript(t *testing.T, text string, write ...string) string {
	t.Helper()
	out, _, err := runScriptIn(t.Context(), testgit.Script(t, text), write...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func runScriptIn(ctx context.Context, program string, write ...string) (output string, wrote int64, err error) {
	return runLimited(ctx, Limits{CPU: 10 * time.Minute, Memory: 4 << 30}, program, write...)
}

func runLimited(ctx context.Context, l Limits, program string, write ...string) (output string, wrote int64, err error) {
	box, err := New("")
	if err != nil {
		return "", 0, err
	}
	var out strings.Builder
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir, cmd.Env, cmd.Stdout = "/", []string{"PATH=/usr/bin:/bin"}, &out
	wrote, err = box.Run(cmd, Task{
		UID: fetcher, GID: fetcher + 1, Read: []string{filepath.Dir(program), "/proc"}, Write: write, Limits: l,
	})
	return out.String(), wrote, err
}

// TestBytesWritten checks that the bytes count that a process wrote and deleted, whether its
// parent waited for it or not.
func TestBytesWritten(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a child": `(head -c 3000000 /dev/urandom > f; rm f); true`,
		"an orphan": `mkfifo wrote
sh -c 'head -c 3000000 /dev/urandom > f; rm f; echo > wrote; sleep 60' >&2 &
read line < wrote`,
	} {
		dir := testgit.Owned(t, "", fetcher)
		_, wrote, err := runScriptIn(t.Context(), testgit.Script(t, "cd "+dir+"\n"+text), dir)
		if err != nil || wrote < 3_000_000 {
			t.Errorf("%s: %v; %d bytes, want 3,000,000 at least", name, err, wrote)
		}
	}
}

// TestLastingIsNicer: a child that lasts gets another nice value, and so do the processes that it has
// started, before and after that.
func TestLastingIsNicer(t *testing.T) {
	t.Parallel()
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := 20 - prio // the system call returns 20 minus nice
	l := Limits{CPU: 10 * time.Minute, Memory: 4 << 30, Nice: 1, Lasting: 3}
	first, last := min(own+l.Nice, 19), min(own+l.Lasting, 19)
	out, _, err := runLimited(t.Context(), l, testgit.Script(t, fmt.Sprintf(`nice() { cut -d ' ' -f 19 /proc/$1/stat; }
nice self
sleep 600 &
while [ $(nice $$) != %d ] || [ $(nice $!) != %[1]d ]; do sleep 0.01; done
kill $!
nice self`, last)))
	if want := fmt.Sprintf("%d\n%d\n", first, last); err != nil || out != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
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

// TestParentKeepsItsPrivileges checks that no remaining thread is confined, and that no child is
// started on the first thread, which never ends.
func TestParentKeepsItsPrivileges(t *testing.T) {
	t.Parallel()
	for range 200 {
		thread := make(chan int)
		onThread(func() { thread <- unix.Gettid() })
		if <-thread == os.Getpid() {
			t.Fatal("f ran on the first thread")
		}
	}
	runScript(t, "true")
	status, err := os.ReadFile("/proc/self/status") // of the first thread
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t0") {
		t.Errorf("the first thread is confined: %v\n%s", err, status)
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600); err != nil {
		t.Errorf("the test itself is confined: %v", err)
	}
}

func TestChildLeadsItsProcessGroup(t *testing.T) {
	t.Parallel()
	fields := strings.Fields(runScript(t, "cat /proc/$$/stat"))
	if len(fields) < 5 || fields[0] != fields[4] {
		t.Errorf("process %v does not lead its group", fields)
	}
	if own := strconv.Itoa(syscall.Getpgrp()); fields[4] == own {
		t.Errorf("the child is in the test's own group %s", own)
	}
}

func TestChildSeesItsGrantsOnly(t *testing.T) {
	t.Parallel()
	abi, err := landlockABI()
	if err != nil {
		t.Fatal(err)
	}
	if abi == 0 {
		t.Fatal("this kernel has no Landlock, which the test needs")
	}
	other, mine := testgit.Scratch(t, ""), testgit.Owned(t, "", fetcher)
	if err := os.Chmod(other, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	// File modes allow all of this, so a refusal comes from Landlock.
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
		// The subshell is needed because a failed redirection ends the shell.
		out := runScript(t, fmt.Sprintf("if (%s) >&2; then echo yes; else echo no; fi", tt.what), mine)
		if got := strings.TrimSpace(out) == "yes"; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// TestNothingIsLeftOfAStoppedCommand ends commands in several ways. A pipe stays open until all
// processes of the group have ended.
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
			dir := testgit.Owned(t, "", fetcher)
			script := testgit.Watch(t, dir, tt.text)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, _, err := runScriptIn(ctx, script.Program, dir)
				ended <- err
			}()
			script.Await()
			if tt.canceled {
				cancel()
			}
			if err := <-ended; (err != nil) != tt.canceled {
				t.Errorf("run: %v", err)
			}
			script.WantGone()
		})
	}
}
