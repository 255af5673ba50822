package testgit

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Image is what an image of containers has.
type Image struct {
	// Path is its PATH.
	Path string
	// Config has arguments for git, such as -c and a variable: the configuration of the image.
	Config []string
}

// Shells are the shells of Small.
var Shells = []string{"dash", "bash", "busybox"}

// Small returns an image that has git, the shell and the programs, and nothing else. Those of busybox
// are BusyBox's own.
func Small(t testing.TB, shell string, programs ...string) Image {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for all users
		t.Fatal(err)
	}
	for _, name := range append([]string{"git", "sh"}, programs...) {
		program := name
		if name == "sh" || shell == "busybox" && name != "git" {
			program = shell
		}
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return Image{Path: dir}
}

// Run runs git in the image as a user.
func (i Image) Run(uid int, dir string, args ...string) (string, error) {
	cmd := Command(dir, append(append([]string{}, i.Config...), args...)...)
	cmd.Env = append(cmd.Env, "PATH="+i.Path)
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return Run(cmd)
}
