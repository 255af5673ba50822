package tests

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/wait"
)

// TestChildrenAreLimited checks the limits of a git of the plugin, while it waits for a remote that
// does not answer.
func TestChildrenAreLimited(t *testing.T) {
	t.Parallel()
	e := shared(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() { // the plugin's own question fails, so git asks
		if first, err := silent.Accept(); err == nil {
			first.Close()
		}
	}()
	url := "http://" + silent.Addr().String() + "/silent"
	created := make(chan error, 1)
	go func() {
		_, err := e.Try(append([]string{"volume", "create"}, createArgs("limited", "repo="+url, "subject="+subject(t))...)...)
		created <- err
	}()
	t.Cleanup(func() { e.Try("volume", "rm", "--force", "limited") })
	wait.For(t, "the limits of a git", func() error {
		dir, err := processOf(url)
		if err != nil {
			return err
		}
		limits, err := os.ReadFile(filepath.Join(dir, "limits"))
		if err != nil {
			return err
		}
		score, err := os.ReadFile(filepath.Join(dir, "oom_score_adj"))
		if err != nil {
			return err
		}
		text := strings.Join(strings.Fields(string(limits)), " ")
		for _, want := range []string{"Max cpu time 20 25 seconds", "Max core file size 0 0 bytes", "Max open files 4096 4096 files"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no %q in %s", want, limits)
			}
		}
		if strings.Contains(text, "Max data size unlimited") {
			return fmt.Errorf("no memory limit in %s", limits)
		}
		if got := strings.TrimSpace(string(score)); got != "500" {
			return fmt.Errorf("its OOM score is %s, want 500", got)
		}
		return nil
	})
	if err := <-created; err != nil {
		t.Error(err)
	}
}

// processOf returns the directory in /proc of git's HTTP transport for a URL.
func processOf(url string) (string, error) {
	for _, pid := range proc.All() {
		args, err := proc.Args(pid)
		if err == nil && len(args) > 1 && strings.Contains(strings.Join(args, " "), "git-remote-http") && args[len(args)-1] == url {
			return fmt.Sprintf("/proc/%d", pid), nil
		}
	}
	return "", fmt.Errorf("no transport process for %s", url)
}
