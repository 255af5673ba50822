package testgit

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Command returns a git command that runs in dir as in a container, without any user's or system's
// configuration. An empty dir is the process's working directory.
func Command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t"}
	return cmd
}

// Run runs a command and returns its output without the newlines at the end. The error contains the
// output.
func Run(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s in %q: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err, out)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// Git runs a Command and returns its output. An error ends the test.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return GitAs(t, 0, dir, args...)
}

// About reads a workspace's .git/helmdeck.json.
func About(t testing.TB, dir string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git/helmdeck.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// GitAny is Git for a repository of any owner.
func GitAny(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return Git(t, dir, append([]string{"-c", "safe.directory=*"}, args...)...)
}

// GitAs is Git as another user.
func GitAs(t testing.TB, uid int, dir string, args ...string) string {
	t.Helper()
	cmd := Command(dir, args...)
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	out, err := Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
