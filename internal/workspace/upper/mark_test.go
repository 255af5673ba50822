package upper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestReadMark checks which marks have a label, and what is no mark.
func TestReadMark(t *testing.T) {
	t.Parallel()
	root := testdir.New(t, "mark")
	at := filepath.Join(root, Mark)
	read := func(what, label string, has bool) {
		t.Helper()
		if got, ok, err := ReadMark(root); got != label || ok != has || err != nil {
			t.Errorf("%s: %q, %v, %v, want %q, %v", what, got, ok, err, label, has)
		}
	}
	read("no .git", "", false)
	if err := os.Mkdir(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	read("none", "", false)
	long := strings.Repeat("x", maxLabel)
	for text, label := range map[string]string{
		"": "", "\n": "", "\nx": "", "image 1\n": "image 1", "image 1": "image 1", " a ~\nsecond\n\x00": " a ~",
		"a\r\n": "", "a\tb": "", "\x1b[31mred": "", "é": "", "a\x7f": "", "a\xff": "", "a\x00": "",
		long: long, long + "\n": long, long + "\nmore": long, long + "x": "", long + "x\n": "", "a\n" + long + long: "a",
	} {
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		read(text, label, true)
	}
	// A large one, which is read no further, and one without permissions.
	if err := errors.Join(os.WriteFile(at, []byte("a\n"), 0o644), os.Truncate(at, 1<<40)); err != nil {
		t.Fatal(err)
	}
	read("sparse", "a", true)
	if err := os.Chmod(at, 0); err != nil {
		t.Fatal(err)
	}
	read("mode 0", "a", true)
	for what, mark := range map[string]func() error{
		"link":      func() error { return os.Symlink("helmdeck.json", at) },
		"fifo":      func() error { return unix.Mkfifo(at, 0o644) },
		"directory": func() error { return os.Mkdir(at, 0o755) },
		"device":    func() error { return unix.Mknod(at, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) },
	} {
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		if err := mark(); err != nil {
			t.Fatal(err)
		}
		read(what, "", false)
	}
}
