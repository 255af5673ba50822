package overlay

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// plugin is a data directory on a shared mount, as that of a managed plugin, with its mount
// points and one overlay at mnt/ws.
type plugin struct{ dir, points, target string }

func newPlugin(t *testing.T) plugin { return newPluginOf(t, newSpec(t)) }

func newPluginOf(t *testing.T, s Spec) plugin {
	t.Helper()
	dir := filepath.Dir(s.Target)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	propagate(t, dir, unix.MS_PRIVATE)
	propagate(t, dir, unix.MS_SHARED)
	p := plugin{dir, filepath.Join(dir, "mnt"), filepath.Join(dir, "mnt", "ws")}
	if err := MakePoint(p.points, "ws"); err != nil {
		t.Fatal(err)
	}
	s.Target = p.target
	mustMount(t, s)
	return p
}

func propagate(t *testing.T, dir string, how uintptr) {
	t.Helper()
	if err := unix.Mount("", dir, "", how, ""); err != nil {
		t.Fatal(err)
	}
}

// namespace is a shell in a mount namespace of its own.
type namespace struct {
	t   *testing.T
	in  *os.File
	out *bufio.Reader
	end func()
}

// unshare starts a shell in a new mount namespace with the given propagation; "unchanged"
// makes its mounts peers of ours, as those of the host are of a plugin's.
func unshare(t *testing.T, propagation string) namespace {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", propagation, "sh")
	cmd.Stdin, cmd.Stderr = r, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	n := namespace{t: t, in: w, out: bufio.NewReader(out)}
	n.end = func() { w.Close(); cmd.Wait() }
	t.Cleanup(n.end)
	n.run("true")
	return n
}

// run waits for a command's end, and returns what it prints, in one line.
func (n namespace) run(command string) string {
	n.t.Helper()
	if _, err := n.in.WriteString("out=$(" + command + "); echo $out $?\n"); err != nil {
		n.t.Fatal(err)
	}
	line, err := n.out.ReadString('\n')
	text, ok := strings.CutSuffix(strings.TrimSpace(line), "0")
	if err != nil || !ok {
		n.t.Fatalf("%s: %q, %v", command, line, err)
	}
	return strings.TrimSpace(text)
}
