package proc

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000000 & echo; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the shell has forked its child
		t.Fatal(err)
	}
	shell := cmd.Process.Pid
	children := Descendants(shell)
	if len(children) != 1 || Parent(children[0]) != shell || Parent(shell) != os.Getpid() {
		t.Fatalf("children of the shell: %v", children)
	}
	if own := Descendants(os.Getpid()); !slices.Contains(own, shell) || !slices.Contains(own, children[0]) || slices.Contains(own, os.Getpid()) {
		t.Errorf("descendants of the test: %v, want %d and %d, and not the test itself", own, shell, children[0])
	}
	if args, err := Args(shell); err != nil || !slices.Equal(args, cmd.Args) {
		t.Errorf("arguments of the shell: %q, %v, want %q", args, err, cmd.Args)
	}

	for _, pid := range []int{children[0], shell} {
		if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
			t.Fatalf("kill %d: %v", pid, err)
		}
	}
	wait.For(t, "a zombie, which has no arguments", func() error {
		args, err := Args(shell)
		return wait.Check(len(args) == 0 && err == nil, "%q, %v", args, err)
	})
	cmd.Wait()
	if _, err := Args(shell); err == nil || Parent(shell) != 0 {
		t.Error("a process that is gone has arguments or a parent")
	}
}

func TestIsInit(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !IsInit(cmd.Process.Pid) || IsInit(os.Getpid()) {
		t.Error("want true of the first process of a PID namespace alone")
	}
	in.Close()
	cmd.Wait()
	if IsInit(cmd.Process.Pid) {
		t.Error("true of a process that is gone")
	}
}
