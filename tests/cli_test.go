package tests

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/wait"
)

// cliScripts counts the scripts that have run.
var cliScripts atomic.Int32

// TestCLI runs the scripts of testdata/cli with `docker repos` against the shared engine: as root, who opens
// the admin socket, and as a user who may only use the engine. In a script, docker is the command as that
// user runs it, $S a subject and a prefix of names that no other script uses, $REPO a repository and $HEAD its
// commit. The conditions [root] and [member] say who the user is.
func TestCLI(t *testing.T) {
	t.Parallel()
	e := shared(t)
	remote := newRemote(t)
	for _, who := range []string{"root", "member"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			bin := e.installCLI(t, who)
			testscript.Run(t, testscript.Params{
				Dir:                 "testdata/cli",
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
					s := fmt.Sprintf("cli-%s-%s-%d", who, script, cliScripts.Add(1)) // the engine keeps what it leaves
					env.Vars = append(env.Vars,
						"PATH="+bin+":"+os.Getenv("PATH"), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+bin,
						"S="+s, "REPO="+remote.url, "HEAD="+remote.head, "IMAGE="+image, "DRIVER="+pluginName)
					return nil
				},
				Condition: func(cond string) (bool, error) { return cond == who, nil },
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
					"capture":   capture,
					"code":      code,
					"interrupt": func(ts *testscript.TestScript, neg bool, args []string) { interrupt(t, ts, neg, args) },
					"retry":     func(ts *testscript.TestScript, neg bool, args []string) { retry(t, ts, neg, args) },
					"mount":     func(ts *testscript.TestScript, _ bool, args []string) { e.mountAlone(t, ts, args) },
				},
			})
		})
	}
}

// installCLI makes a directory with docker's command as a user runs it, and its plugin repos.
func (e *engine) installCLI(t *testing.T, who string) string {
	t.Helper()
	dir := filepath.Join(scratch, "cli-"+who)
	if err := os.MkdirAll(dir+"/cli-plugins", 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../build/docker-repos")
	if err != nil {
		t.Fatalf("no command: run make cli first: %v", err)
	}
	for _, name := range []string{dir + "/cli-plugins/docker-repos", dir + "/docker-repos"} {
		if err := os.WriteFile(name, program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if who == "root" {
		return dir
	}
	var socket syscall.Stat_t
	if err := syscall.Stat(e.Path("sock"), &socket); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docker", "docker-repos"} {
		path, err := exec.LookPath(name)
		if name == "docker-repos" {
			path, err = dir+"/cli-plugins/docker-repos", nil
		}
		if err != nil {
			t.Fatal(err)
		}
		// The scripts' working directories belong to root.
		script := fmt.Sprintf("#!/bin/sh\ncd /\nexec setpriv --reuid=54321 --regid=%d --clear-groups %s \"$@\"\n", socket.Gid, path)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// capture sets a variable to the last output, without the line break: capture NAME.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// code runs a command that must end with an exit code: code N PROGRAM [ARG...].
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if ended, ok := err.(*exec.ExitError); ok {
		got = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("the exit code is %d, want %s", got, args[0])
	}
}

// retry runs a command until it succeeds: retry PROGRAM [ARG...].
func retry(l wait.Limit, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: retry PROGRAM [ARG...]")
	}
	ts.Check(wait.Until(l, func() error { return ts.Exec(args[0], args[1:]...) }))
}

// interrupt runs a command until it prints something, and then presses Ctrl-C: interrupt TEXT PROGRAM [ARG...].
// The command must end as one that SIGINT has ended.
func interrupt(l wait.Limit, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt TEXT PROGRAM [ARG...]")
	}
	path, err := exec.LookPath(filepath.Join(ts.Getenv("DOCKER_CONFIG"), args[1]))
	if err != nil {
		path, err = exec.LookPath(args[1])
	}
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	for _, name := range []string{"PATH", "DOCKER_HOST", "DOCKER_CONFIG"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	kill := func(s syscall.Signal) { syscall.Kill(-cmd.Process.Pid, s) }
	stuck := time.AfterFunc(wait.Most(l), func() { kill(syscall.SIGKILL) })
	defer stuck.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), args[0]) {
	}
	kill(syscall.SIGINT)
	for lines.Scan() {
	}
	err = cmd.Wait()
	ended, ok := err.(*exec.ExitError)
	if !ok || ended.ExitCode() != 128+int(syscall.SIGINT) {
		ts.Fatalf("the command ended with %v, want the exit code 130", err)
	}
}

// mountAlone mounts a volume as the engine does, but for no container: mount VOLUME HOLDER. The lease is
// like that of a container that the engine has forgotten.
func (e *engine) mountAlone(t *testing.T, ts *testscript.TestScript, args []string) {
	caller := daemon.Dial(fmt.Sprintf("/proc/%d/root/run/docker/plugins/repos.sock", e.pluginPID(t, 0)))
	defer caller.Client.CloseIdleConnections()
	if _, err := caller.Mount(t.Context(), args[0], args[1]); err != nil {
		ts.Fatalf("%v", err)
	}
}
